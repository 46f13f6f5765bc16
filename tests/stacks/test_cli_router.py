"""`infercrane router`: what it prints. The process itself is tested in tests/router/test_server.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest
from click.testing import CliRunner

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


async def test_table_as_json(router: RouterProcess) -> None:
    await put(router)
    import asyncio

    arguments = ["table", "chat", "--json", "--control", str(router.control)]
    result = await asyncio.to_thread(CliRunner().invoke, command, arguments)
    assert json.loads(result.output) == {"chat": {"table": ANY, "inflight": {R1: 0}}}


def test_without_a_router_it_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["table", "--control", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "Error: no router answers on" in result.output
