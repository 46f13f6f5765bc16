"""The files under deploy/ fit the program: units, container file, and what both start."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulumi_infercrane.router.addresses import read_listen_address
from pulumi_infercrane.router.serving.sockets import CONTROL, DATA
from pulumi_infercrane.stacks.cli.router import serve

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
BIN = Path(sys.executable).parent
UNITS = sorted(path.name for path in SYSTEMD.iterdir())


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(SYSTEMD / name)
    return parser


def options(words: list[str]) -> dict[str, object]:
    """What `infercrane router serve` makes of a command line."""
    return serve.make_context("serve", words).params


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name in UNITS:
        text = (SYSTEMD / name).read_text().replace("/opt/infercrane/bin/infercrane", str(BIN / "infercrane"))
        (tmp_path / name).write_text(text)
    verify = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in UNITS)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if "infercrane" in line]
    assert not complaints


def test_the_sockets_are_those_the_router_takes() -> None:
    named = {unit(name)["Socket"]["FileDescriptorName"]: unit(name)["Socket"] for name in UNITS if "socket" in name}
    assert set(named) == {DATA, CONTROL}
    read_listen_address(named[DATA]["ListenStream"])
    assert named[CONTROL]["SocketMode"] == "0660"
    service = unit("infercrane-router.service")["Service"]
    read = options(shlex.split(service["ExecStart"])[3:])
    assert str(read["control"]) == named[CONTROL]["ListenStream"]
    assert read["workers"]  # else a reload would end it
    assert read["drain"] < int(service["TimeoutStopSec"])  # type: ignore[operator]
    assert {socket["Service"] for socket in named.values()} == {"infercrane-router.service"}


def instructions() -> dict[str, str]:
    """Of the last stage of the container file; the last one of a name counts."""
    stage = (ROOT / "deploy" / "Containerfile").read_text().rpartition("\nFROM ")[2].replace("\\\n", " ")
    return dict(re.findall(r"^([A-Z]+) (.*)$", stage, re.MULTILINE))


def test_the_container_is_not_root_and_copies_what_there_is() -> None:
    assert int(instructions()["USER"].partition(":")[0]) > 0
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "deploy" / "Containerfile").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_what_the_container_starts_serves_reports_its_health_and_ends(tmp_path: Path) -> None:
    found = instructions()
    health = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    start = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    assert json.loads(found["VOLUME"]) == ["/var/lib/infercrane", "/run/infercrane"]
    here = {"/var/lib/infercrane": f"{tmp_path}/state", "/run/infercrane": f"{tmp_path}", "0.0.0.0:8000": "0.0.0.0:0"}
    for there, place in here.items():
        start = [word.replace(there, place) for word in start]
        health = [word.replace(there, place) for word in health]
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    assert subprocess.run(health, env=environment, capture_output=True, check=False).returncode == 1
    with subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert b"listening on" in process.stdout.readline()
        assert subprocess.run(health, env=environment, check=False).returncode == 0
        process.terminate()
    assert process.returncode == 0
    assert not list(tmp_path.glob("*.sock"))


@pytest.mark.parametrize(
    ("words", "why"),
    [([], "go together"), (["--tls-key", str(ROOT / "LICENSE")], "certificate .*LICENSE")],
)
def test_a_command_line_that_is_wrong_is_told_without_serving(tmp_path: Path, words: list[str], why: str) -> None:
    places = ["--control", str(tmp_path / "c"), "--state", str(tmp_path / "state")]
    done = CliRunner().invoke(serve, ["--check", *places, "--tls-cert", str(ROOT / "LICENSE"), *words])
    assert (done.exit_code, bool(re.search(why, done.output))) == (2, True), done.output
    assert not list(tmp_path.iterdir())
