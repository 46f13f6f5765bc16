"""Windows of a router as files: written once, and kept by the router until they are."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulumi_infercrane.components import RouteArgs
from pulumi_infercrane.guard import load_windows, new_key
from pulumi_infercrane.guard.trust.dsse import WINDOW_TYPE, is_valid
from pulumi_infercrane.router.control.client import ControlClient
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.stacks.cli.router import command
from pulumi_infercrane.stacks.config import RouterConfig, StackConfig
from pulumi_infercrane.stacks.project import Project
from pulumi_infercrane.stacks.windows import take, take_all, with_restarts
from tests.router.conftest import R1, R2, RouterProcess, declared, revision

SHARED = {R1: 95, R2: 5}


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RouterProcess]:
    process = RouterProcess(tmp_path).wait_ready()
    yield process
    process.kill()


@pytest.fixture
async def control(router: RouterProcess) -> ControlClient:
    """R2 has a share of what R1 serves, and a window is open for some time."""
    async with router.client() as client:
        both = {R1: revision("r1", "http://127.0.0.1:9"), R2: revision("r2", "http://127.0.0.1:9")}
        await client.put("chat", declared(both), if_match=None)
        await client.flip("chat", Flip("", R1, "first"))
        await client.set_weights("chat", Weights(R1, SHARED, "second"))
        await asyncio.sleep(0.002)
        yield client


async def test_a_window_is_written_once_and_the_router_lets_go_of_it(control: ControlClient, tmp_path: Path) -> None:
    (path,) = await take(control, "chat", tmp_path / "windows")
    (loaded,) = load_windows([path])
    assert loaded.window
    assert {digest: binding.weight for digest, binding in loaded.window.bindings.items()} == SHARED
    await asyncio.sleep(0.002)
    (later,) = await take(control, "chat", tmp_path / "windows")
    assert later > path


async def test_what_was_written_before_a_crash_is_not_written_again(control: ControlClient, tmp_path: Path) -> None:
    (name,) = await control.close_window("chat")
    await asyncio.sleep(0.002)
    there = tmp_path / f"chat.{name}.window.json"
    there.write_text("judged already")
    written = await take(control, "chat", tmp_path)
    assert written[0] == there
    assert there.read_text() == "judged already"
    assert len(written) == 2


async def test_the_command_names_the_files(control: ControlClient, router: RouterProcess, tmp_path: Path) -> None:
    asked = ["window", "chat", "--control", str(router.control), "--out", str(tmp_path / "windows")]
    done = await asyncio.to_thread(CliRunner().invoke, command, asked)
    assert done.exit_code == 0
    assert [Path(line) for line in done.output.splitlines()] == list((tmp_path / "windows").iterdir())
    unknown = await asyncio.to_thread(CliRunner().invoke, command, ["window", "none", *asked[2:]])
    assert (unknown.exit_code, "no service none" in unknown.output) == (1, True)


async def test_a_window_is_signed_where_it_is_written(
    control: ControlClient, router: RouterProcess, tmp_path: Path
) -> None:
    key = new_key(tmp_path / "router.pem")
    asked = ["window", "chat", "--control", str(router.control), "--out", str(tmp_path / "windows")]
    signing = [*asked, "--sign-with", str(tmp_path / "router.pem")]
    done = await asyncio.to_thread(CliRunner().invoke, command, signing)
    (loaded,) = load_windows([Path(done.output.strip())])
    assert loaded.attestation
    (signature,) = loaded.attestation.signatures
    assert signature.keyid == key.id
    assert is_valid(key.public_key, signature.sig, WINDOW_TYPE, loaded.body)
    (tmp_path / "router.pem").chmod(0o644)
    refused = await asyncio.to_thread(CliRunner().invoke, command, signing)
    assert (refused.exit_code, "others can read this key" in refused.output) == (2, True)


async def test_the_windows_of_a_stack_are_signed_too(
    control: ControlClient, router: RouterProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERCRANE_STATE_DIR", str(router.control.parent / "stacks"))  # a socket path is short
    project = Project(tmp_path, "lab", "dev", "file://")
    project.place.root.mkdir(parents=True)
    project.place.control.symlink_to(router.control)
    nowhere = tmp_path / "none"
    config = StackConfig(tmp_path, "chat", (), None, None, nowhere, nowhere, RouterConfig(), RouteArgs())
    key = new_key(tmp_path / "router.pem")
    (path,) = await asyncio.to_thread(take_all, project, config, key)
    assert path.parent == project.place.windows
    (loaded,) = load_windows([path])
    assert loaded.attestation
    assert loaded.attestation.signatures[0].keyid == key.id


@pytest.mark.parametrize(("exited", "restarts"), [(None, 0), (99.9, 0), (100.0, 1), (109.9, 1), (110.0, 0)])
def test_a_server_that_ended_while_the_window_was_open_was_restarted(exited: float | None, restarts: int) -> None:
    window = {
        "started_at": "1970-01-01T00:01:40.000Z",
        "ended_at": "1970-01-01T00:01:50.000Z",
        "bindings": [{"revision": R1, "restarts": 0}],
    }
    assert with_restarts(window, lambda _: exited)["bindings"] == [{"revision": R1, "restarts": restarts}]
