"""`infercrane router export`: from a file, from a running router, and along with its generations."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulumi_infercrane.router.control.client import Flip
from pulumi_infercrane.stacks.cli.router import command
from tests.router.conftest import R1, R2, RouterProcess, declared, eventually, revision
from tests.router.export.conftest import table_of

TWO = {R1: revision("r1", "http://127.0.0.1:9"), R2: revision("r2", "http://127.0.0.1:10", model="chat")}


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RouterProcess]:
    process = RouterProcess(tmp_path).wait_ready()
    yield process
    process.kill()


def export(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(command, ["export", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_table_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(table_of(TWO, R1).document()))
    code, output = export("haproxy", "--table", tmp_path / "chat.json", "--out", tmp_path / "out")
    assert (code, output.splitlines()) == (
        0,
        [
            "note: r1 serves org/model; its engine will be asked for chat",
            f"chat  generation 1  written in {tmp_path / 'out'}: active.map, haproxy.cfg",
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["haproxy"], "give --control or --table"),
        (["haproxy", "--table", "t.json", "--watch"], "--watch follows a running router"),
        (["traefik", "--table", "t.json"], "there is no target 'traefik'; known are envoy"),
        (["haproxy", "--table", "t.json"], "t.json: not JSON"),
        (["haproxy", "--table", "e.json"], "e.json: schema is None"),
        (["haproxy", "--control", "none"], "no router answers on none"),
    ],
)
def test_what_cannot_be_exported_says_why(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.json").write_text("{")
    Path("e.json").write_text("{}")
    code, output = export(*arguments, "--out", "out")
    assert code
    assert says in output
    assert not Path("out").exists()


async def test_every_generation_is_followed(router: RouterProcess, tmp_path: Path) -> None:
    active = tmp_path / "out" / "active.map"
    arguments = ["export", "haproxy", "--control", str(router.control), "--out", str(tmp_path / "out"), "--watch"]
    async with router.client() as control:
        await control.put("chat", declared(TWO), if_match=None)
        watching = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pulumi_infercrane", "router", *arguments, stderr=asyncio.subprocess.PIPE
        )
        try:
            for expected, to in (("", R1), (R1, R2)):
                await control.flip("chat", Flip(expected, to, f"to-{to}"))
                line = f"active {to}"
                await eventually(lambda line=line: active.exists() and line in active.read_text(), 15)
        finally:
            watching.kill()
            await watching.communicate()
