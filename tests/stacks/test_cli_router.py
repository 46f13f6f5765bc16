"""`infercrane router`: what it prints. The process itself is tested in tests/router/test_server.py."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest
from click.testing import CliRunner, Result

from pulumi_infercrane.router.protocol.request import Limits
from pulumi_infercrane.router.relay.relay import ConnectionTimers
from pulumi_infercrane.stacks.cli.router import command
from tests.router.conftest import R1, RouterProcess, declared, revision


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RouterProcess]:
    process = RouterProcess(tmp_path).wait_ready()
    yield process
    process.kill()


async def put(router: RouterProcess) -> None:
    async with router.client() as control:
        await control.put("chat", declared({R1: revision("r1", "http://127.0.0.1:9")}), if_match=None)


async def test_table_prints_what_is_served(router: RouterProcess) -> None:
    await put(router)
    # the command runs its own loop
    import asyncio

    result = await asyncio.to_thread(CliRunner().invoke, command, ["table", "--control", str(router.control)])
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == "chat  generation 1  aliases chat"
    assert "r1" in result.output and "http://127.0.0.1:9" in result.output


def test_without_a_table_it_says_so_beside_the_output(router: RouterProcess) -> None:
    result = CliRunner().invoke(command, ["table", "--control", str(router.control)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "the router has no route table yet\n"


async def test_a_dialect_that_may_be_a_slip_is_noted(router: RouterProcess) -> None:
    import asyncio

    async with router.client() as control:
        slip = revision("r1", "http://127.0.0.1:9") | {"dialect": "vlm"}
        await control.put("chat", declared({R1: slip}), if_match=None)
    result = await asyncio.to_thread(run_table, router)
    assert result.stderr.startswith("note: r1: no special dialect vlm; probes ask for /v1/models")
    assert "there is: vllm, " in result.stderr


async def test_table_as_json(router: RouterProcess) -> None:
    await put(router)
    import asyncio

    arguments = ["table", "chat", "--json", "--control", str(router.control)]
    result = await asyncio.to_thread(CliRunner().invoke, command, arguments)
    assert json.loads(result.output) == {"chat": {"table": ANY, "inflight": {R1: 0}}}


def test_without_a_router_it_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["table", "--control", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "error: no router answers on" in result.output


async def test_ready_says_why_it_is_not(router: RouterProcess) -> None:
    import asyncio

    def invoke(*options: str) -> Result:
        return CliRunner().invoke(command, ["ready", "--control", str(router.control), *options])

    result = await asyncio.to_thread(invoke)
    assert (result.exit_code, result.output) == (1, "error: no service has a route table\n")
    assert (await asyncio.to_thread(invoke, "--live")).exit_code == 0


def run_table(router: RouterProcess) -> Result:
    return CliRunner().invoke(command, ["table", "--control", str(router.control)])


def run(router: RouterProcess, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["key", *arguments, "--control", str(router.control)])


def test_a_key_is_made_listed_rotated_and_revoked(router: RouterProcess) -> None:
    assert run(router, "list").stdout == "requests without a key are allowed\n"
    made = run(router, "new", "ci", "--service", "chat", "--days", "30", "--requests-per-minute", "60")
    assert made.stdout.startswith("ic_") and made.stdout.count("\n") == 1
    assert made.stderr == "key ci: it is not shown again\n"
    rotated = run(router, "rotate", "ci", "--old-valid", "60", "--json")
    document = json.loads(rotated.stdout)
    assert document["secret"] != made.stdout.strip()
    assert document["key"]["limits"] == {"requests_per_minute": 60}
    assert "2 secrets" in run(router, "list").stdout
    assert run(router, "revoke", "ci").stdout == "ci is revoked\n"
    listed = run(router, "list").stdout.splitlines()
    assert listed[0] == "requests without a key are refused"
    assert "revoked 20" in listed[1]
    assert json.loads(run(router, "list", "--json").stdout)["required"] is True


async def test_a_key_for_a_service_that_is_not_there_is_noted(router: RouterProcess) -> None:
    import asyncio

    await put(router)
    made = await asyncio.to_thread(run, router, "new", "ci", "--service", "chta", "--service", "chat")
    assert made.stdout.startswith("ic_")
    assert made.stderr.splitlines()[1:] == ["note: the router has no service chta yet; there is: chat"]
    assert "note" not in (await asyncio.to_thread(run, router, "new", "all", "--service", "*")).stderr


def test_a_refused_key_is_explained(router: RouterProcess) -> None:
    refused = run(router, "new", "ci", "--service", "chat", "--priority", "urgent")
    assert refused.exit_code == 2
    assert "key.priorities[0]: 'urgent' is not one of high, normal, low" in refused.output
    assert "no key ci" in run(router, "revoke", "ci").output


@pytest.mark.parametrize(("proxies", "code"), [("10.0.0.0/8,::1", 0), ("0.0.0.0/0", 2), ("proxy.internal", 2)])
def test_trusted_proxies_are_read_at_the_start(tmp_path: Path, proxies: str, code: int) -> None:
    places = ["--control", str(tmp_path / "c"), "--state", str(tmp_path / "s")]
    result = CliRunner().invoke(command, ["serve", "--check", *places, "--trusted-proxies", proxies])
    assert result.exit_code == code, result.output
    assert ("error: --trusted-proxies" in result.output) is bool(code)


@pytest.mark.parametrize(("option", "default"), [("--max-body", Limits().body), ("--idle", ConnectionTimers().idle_s)])
def test_the_defaults_it_tells_are_those_there_are(option: str, default: float) -> None:
    told = " ".join(CliRunner().invoke(command, ["serve", "--help"]).output.split())
    _, _, about = told.partition(f"{option} ")
    assert re.findall(r"\[default: (.*?)\]", about)[0] == str(default)
