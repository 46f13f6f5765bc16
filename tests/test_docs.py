"""What the documentation shows works: commands parse, configurations load, programs import what exists."""

import ast
import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from docs.generate import exporters_page, policy_page
from pulumi_infercrane.guard import Ledger, load_policy, read_window
from pulumi_infercrane.guard.collect.prices import load_prices
from pulumi_infercrane.guard.collect.recording import load_recording
from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.router.recording.policy import read_policy
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.stacks.cli import cli
from pulumi_infercrane.stacks.config import from_file
from pulumi_infercrane.stacks.project import find_project
from tests.guard.conftest import Folder
from tests.guard.rollout import conftest as traffic
from tests.router.conftest import R1, R2, RouterProcess, declared, revision
from tests.router.export.conftest import table_of

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> Iterator[str]:
    """Every `infercrane …` line of a code block."""
    for page in PAGES:
        for block in blocks(page, "[a-z]*"):
            for line in block.splitlines():
                if line.startswith("infercrane "):
                    yield line.partition("#")[0].strip()


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_a_command_shown_is_a_command_there_is(line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)[1:]
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_there_are_commands_to_check() -> None:
    assert len(set(commands())) >= 5


def test_the_configuration_shown_loads(tmp_path: Path) -> None:
    shown = blocks(ROOT / "docs" / "configuration.md", "yaml")
    (tmp_path / "Pulumi.yaml").write_text("name: shown\nruntime: python\n")
    (tmp_path / "Pulumi.prod.yaml").write_text(shown[0])
    (tmp_path / "revisions").mkdir()
    indented = shown[0].partition("    r1:\n")[2].partition("    r2:\n")[0]
    lines = [line[6:] for line in indented.replace("max_concurrency: 4", "max_concurrency: 8").splitlines()]
    (tmp_path / "revisions" / "r2.yaml").write_text("\n".join(lines))
    config = from_file(find_project(tmp_path, "prod"))
    assert (config.service, config.candidate) == ("chat", "r2")
    assert config.revision("r1").digest != config.revision("r2").digest


def test_the_tables_of_the_policy_page_are_those_of_today() -> None:
    page = (ROOT / "docs" / "policy.md").read_text()
    assert page == policy_page(page), "run python docs/generate.py"


def test_the_table_of_targets_is_that_of_today() -> None:
    page = (ROOT / "docs" / "exporters.md").read_text()
    assert page == exporters_page(page), "run python docs/generate.py"


def test_the_policy_shown_loads() -> None:
    policy = load_policy(blocks(ROOT / "docs" / "policy.md", "yaml")[0])
    assert policy.required_kinds("dev") == ("benchmark",)
    assert policy.required_kinds("prod", ["runtime"]) == ("benchmark", "quality", "reliability", "replay")


def test_the_trust_store_shown_loads() -> None:
    policy = load_policy(blocks(ROOT / "docs" / "trust.md", "yaml")[0])
    assert policy.trust
    assert policy.trust.require_signatures


def measure_now(root: Path) -> None:
    """Good evidence whose window ends in a minute: a key made meanwhile is valid by then."""
    now = datetime.now(UTC)
    ends = {"started_at": now - timedelta(minutes=2), "ended_at": now + timedelta(minutes=1)}
    window = {name: format_time(time) for name, time in ends.items()}
    folder = Folder(root)
    for role in ("baseline", "candidate"):
        folder.benchmark(role, folder.seconds(300), header=window, change=lambda e: e.update(window=window))


def test_the_way_from_a_key_to_a_verdict_works_as_shown(tmp_path: Path) -> None:
    page = ROOT / "docs" / "trust.md"
    measure_now(tmp_path / "evidence")
    (tmp_path / "policy.yaml").write_text(blocks(page, "yaml")[0].partition("trust:")[0])
    assert "PROMOTE" in run_shown(blocks(page, "")[0], tmp_path)
    assert load_policy((tmp_path / "policy.yaml").read_bytes()).trust


def test_the_recording_policy_the_recording_and_the_prices_shown_load(tmp_path: Path) -> None:
    page = ROOT / "docs" / "collecting.md"
    policy, prices = blocks(page, "yaml")
    (tmp_path / "record.yaml").write_text(policy)
    (tmp_path / "prices.yaml").write_text(prices)
    (tmp_path / "recording.jsonl").write_text(blocks(page, "json")[0])
    assert read_policy(tmp_path / "record.yaml").redact == ("emails", "digits")
    assert len(load_prices(tmp_path / "prices.yaml").prices) == 3
    assert [recorded.id for recorded in load_recording(tmp_path / "recording.jsonl", 10)] == ["7f3a"]


def run_shown(block: str, folder: Path) -> str:
    """What the lines of a block print, run in a folder; each of them must exit with 0."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = ["sh", "-ec", block]
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_way_from_a_table_to_a_proxy_works_as_shown(tmp_path: Path) -> None:
    revisions = {f"sha256:{digit * 64}": revision(f"r{digit}", f"http://127.0.0.1:900{digit}") for digit in "12"}
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "chat.json").write_text(json.dumps(table_of(revisions, min(revisions)).document()))
    printed = run_shown(blocks(ROOT / "docs" / "exporters.md", "sh")[0], tmp_path)
    printed = printed.replace(str(tmp_path), "/srv/infercrane")
    assert printed.splitlines() == blocks(ROOT / "docs" / "exporters.md", "text")[0].splitlines()


def test_the_way_from_step_to_step_works_as_shown(tmp_path: Path) -> None:
    page = ROOT / "docs" / "canary.md"
    for name in ("windows", "evidence"):
        (tmp_path / name).mkdir()
    windows = [traffic.pair(), traffic.pair(weight=25, begin=10, end=20), traffic.alone(begin=20, end=50)]
    for index, window in enumerate(windows):
        (tmp_path / "windows" / f"{index}.window.json").write_text(json.dumps(window | {"stack": "default"}))
    (tmp_path / "policy.yaml").write_text(blocks(page, "yaml")[0])
    Ledger(tmp_path / "ledger.jsonl").append(traffic.opened(stack="default"))
    printed = run_shown(blocks(page, "sh")[2], tmp_path)
    assert re.findall(r"^(ADVANCE|FLIP|KEEP)", printed, re.MULTILINE) == ["ADVANCE", "FLIP", "KEEP"]
    assert printed.count(": equal") == 3


async def test_a_router_writes_the_windows_that_are_decided_on_as_shown(tmp_path: Path) -> None:
    router = RouterProcess(tmp_path, control="router.sock").wait_ready()
    both = {R1: revision("r1", "http://127.0.0.1:9"), R2: revision("r2", "http://127.0.0.1:9")}
    try:
        async with router.client() as control:
            await control.put("chat", declared(both), if_match=None)
            await control.flip("chat", Flip("", R1, "first"))
            await control.set_weights("chat", Weights(R1, {R1: 95, R2: 5}, "second"))
        printed = await asyncio.to_thread(run_shown, blocks(ROOT / "docs" / "canary.md", "sh")[1], tmp_path)
    finally:
        router.kill()
    window = read_window((tmp_path / printed.strip()).read_bytes()).window
    assert window
    assert {digest: binding.weight for digest, binding in window.bindings.items()} == {R1: 95, R2: 5}


def test_the_window_shown_is_read() -> None:
    loaded = read_window(blocks(ROOT / "docs" / "canary.md", "json")[0].encode())
    assert loaded.problem is None


def test_the_life_of_a_key_goes_as_shown(tmp_path: Path) -> None:
    router = RouterProcess(tmp_path, control="router.sock").wait_ready()
    try:
        printed = run_shown(blocks(ROOT / "docs" / "keys.md", "sh")[0], tmp_path)
    finally:
        router.kill()
    old, new = ((tmp_path / name).read_text() for name in ("ci.key", "ci.new.key"))
    assert old.startswith("ic_") and new.startswith("ic_") and old != new
    assert "2 secrets" in printed
    assert printed.endswith("ci is revoked\n")


def test_a_first_revision_serves_by_the_calls_shown(tmp_path: Path) -> None:
    page = ROOT / "docs" / "routing.md"
    (tmp_path / "chat.json").write_text(blocks(page, "json")[0])
    router = RouterProcess(tmp_path, control="router.sock").wait_ready()
    try:
        printed = run_shown(blocks(page, "sh")[0], tmp_path)
    finally:
        router.kill()
    assert re.findall(r"^  (r\d) +(\w+) ", printed, re.MULTILINE) == [
        ("r1", "active"),
        ("r2", "serving"),
        ("r0", "serving"),
    ]


@pytest.mark.processes
def test_the_life_of_a_router_with_workers_goes_as_shown(tmp_path: Path) -> None:
    run_shown(blocks(ROOT / "docs" / "serving.md", "sh")[0], tmp_path)
    assert (tmp_path / "serve.log").read_text().count("listening on https://[::1]:") == 2
    assert not (tmp_path / "router.sock").exists()


def test_what_a_router_says_of_its_requests_is_shown(tmp_path: Path) -> None:
    block = blocks(ROOT / "docs" / "monitoring.md", "sh")[0]
    for port in ("8000", "9464"):
        with socket.create_server(("127.0.0.1", 0)) as free:
            block = block.replace(f":{port}", f":{free.getsockname()[1]}")
    printed = run_shown(block, tmp_path)
    assert 'infercrane_router_refused_total{service="",reason="unsupported_endpoint"} 1' in printed
    paths = [json.loads(line)["path"] for line in printed.splitlines()[-2:]]
    assert paths == ["/v1/models", "/v1/batches"]


def test_the_limits_shown_are_read() -> None:
    shown = json.loads(blocks(ROOT / "docs" / "keys.md", "json")[0])
    read = read_declared(declared({R1: revision("r1", "http://a")}, limits=shown))
    assert read.limits is not None
    assert read.limits.document() == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_shown_import_what_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pulumi_infercrane"):
                exec(compile(ast.Module([node], []), page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
