"""`infercrane:index:Process` over gRPC: the provider process, a supervisor, and a small program as the process."""

import json
import os
import signal
import stat
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import provider_pb2 as p

from pulumi_infercrane.components.plugin import wire
from pulumi_infercrane.components.plugin.wire import UNKNOWN, Secret
from pulumi_infercrane.components.supervision.observing import observe

URN = "urn:pulumi:dev::proj::infercrane:index:Process::one"
Inputs = dict[str, Any]


@pytest.fixture
def inputs(place: Path, child: Callable[..., tuple[str, ...]]) -> Callable[..., Inputs]:
    """Inputs as a program gives them; the process serves at a free port."""

    def make(behaviour: str = "serve", **changes: Any) -> Inputs:
        usual: Inputs = {
            "name": "one",
            "place": str(place),
            "argv": list(child(behaviour, "{port}")),
            "readiness": {"path": "/health"},
            "stopGraceS": 5,
            "startTimeoutS": 10,
        }
        return usual | changes

    return make


@pytest.fixture
def running(provider: Any, inputs: Any) -> tuple[str, Inputs, Inputs]:
    """Id, checked inputs and outputs of a process that serves."""
    checked = provider.checked(URN, inputs())
    created = provider.create(URN, checked)
    return created.id, checked, wire.decode(created.properties)


def test_check_writes_out_the_defaults(provider: Any, inputs: Any) -> None:
    checked = provider.checked(URN, inputs())
    assert (checked["host"], checked["port"], checked["maxRestarts"], checked["env"]) == ("127.0.0.1", 0, 5, {})


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        ({"startTimeout": 5}, "startTimeout", "unknown property, did you mean startTimeoutS?"),
        ({"name": "../x"}, "name", "is no name"),
        ({"place": "relative"}, "place", "not an absolute path"),
        ({"argv": []}, "argv", "must be a list of texts"),
        ({"argv": ["/nowhere/llama-server", "{port}"]}, "argv", "not found or not executable"),
        ({"argv": ["/nowhere/x", "{port}"], "runtime": "llama.cpp"}, "argv", "install llama.cpp"),
        ({"argv": ["python", Secret("k")]}, "argv", "give secrets through env or a file"),
        (
            {"files": [{"path": "/nowhere/m.gguf", "sha256": "sha256:00"}]},
            "files",
            "[0]: /nowhere/m.gguf: no such file",
        ),
        ({"files": [{"path": "/etc/hostname"}]}, "files", "[0]: must be an object with path and sha256"),
        ({"env": {"A": 1}}, "env", "must be a map from name to text"),
        ({"host": "0.0.0.0"}, "host", "not an IPv4 loopback address"),
        ({"port": 70_000}, "port", "whole number from 0 to 65535"),
        ({"port": True}, "port", "whole number from 0 to 65535"),
        ({"stopGraceS": 0}, "stopGraceS", "above 0 and at most a day"),
        ({"maxRestarts": 0.5}, "maxRestarts", "whole number"),
        ({"runtime": "llama"}, "runtime", "no runtime 'llama'; there is: llama.cpp"),
        ({"readiness": {"pth": "/x"}}, "readiness", "pth: unknown property, did you mean path?"),
        ({"readiness": {}}, "readiness", "path: required without a runtime"),
        ({"readiness": {"kind": "tcp"}}, "readiness", "neither http nor unix"),
        ({"readiness": {"kind": "unix", "path": "/livez"}}, "readiness", "socket: required with kind unix"),
        ({"argv": ["python3", "x.py"]}, "port", "write {port} in argv"),
    ],
)
def test_check_refuses_by_property(provider: Any, inputs: Any, change: Inputs, key: str, reason: str) -> None:
    found = {failure.property: failure.reason for failure in provider.check(URN, inputs(**change)).failures}
    assert list(found) == [key]
    assert reason in found[key]


def test_check_asks_for_what_is_missing(provider: Any) -> None:
    found = {failure.property: failure.reason for failure in provider.check(URN, {}).failures}
    assert found == dict.fromkeys(("name", "place", "argv", "readiness"), "required")


def test_check_does_not_judge_what_is_not_known_yet(provider: Any, inputs: Any) -> None:
    unknown = dict.fromkeys(inputs(), UNKNOWN)
    assert provider.checked(URN, unknown)["argv"] is UNKNOWN


def test_create_returns_when_the_process_serves(provider: Any, inputs: Any) -> None:
    created = provider.create(URN, provider.checked(URN, inputs("serve_slowly")))
    outputs = wire.decode(created.properties)
    assert outputs["state"] == "running"
    assert outputs["url"] == f"http://127.0.0.1:{outputs['port']}"
    assert outputs["pid"] == observe(Path(created.id)).pid
    assert outputs["startTime"].endswith("Z")
    assert created.refresh_before_update
    assert Path(outputs["logPath"]).parent == Path(created.id)


def test_created_twice_is_one_process(provider: Any, running: tuple[str, Inputs, Inputs]) -> None:
    name, checked, outputs = running
    again = provider.create(URN, checked)
    assert (again.id, wire.decode(again.properties)) == (name, outputs)


def test_created_twice_at_once_is_one_process(provider: Any, inputs: Any) -> None:
    request = p.CreateRequest(urn=URN, properties=wire.encode(provider.checked(URN, inputs("serve_slowly"))))
    calls = [provider.stub.Create.future(request) for _ in range(3)]
    assert len({wire.decode(call.result().properties)["pid"] for call in calls}) == 1


def test_another_specification_under_the_same_name_is_refused(
    provider: Any, inputs: Any, running: tuple[str, Inputs, Inputs]
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, provider.checked(URN, inputs(env={"A": "1"})))
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "process_differs" in caught.value.details()


def test_a_taken_port_is_an_ordinary_failure_that_names_the_holder(
    provider: Any, inputs: Any, running: tuple[str, Inputs, Inputs]
) -> None:
    port = running[2]["port"]
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, provider.checked(URN, inputs(name="two", port=port)))
    assert f"port_taken: 127.0.0.1:{port} is taken by pid {running[2]['pid']}" in caught.value.details()


def test_a_file_with_other_bytes_than_declared_is_never_started(provider: Any, inputs: Any, place: Path) -> None:
    model = place / "model.gguf"
    model.write_bytes(b"other bytes")
    declared = [{"path": str(model), "sha256": "sha256:" + "0" * 64}]
    checked = provider.checked(URN, inputs(files=declared))
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, checked)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert f"file_differs: {model} has sha256 sha256:" in caught.value.details()
    assert not (place / "processes").exists()
    right = [{"path": str(model), "sha256": "sha256:" + sha256(b"other bytes").hexdigest()}]
    assert provider.create(URN, provider.checked(URN, inputs(files=right))).id


def test_a_missing_program_names_the_way_out_beside_other_problems(provider: Any, inputs: Any) -> None:
    gone = [{"path": "/nowhere/llama-server", "sha256": "sha256:00"}]
    asked = inputs(argv=["/nowhere/llama-server", "{port}"], runtime="llama.cpp", files=gone)
    found = {failure.property: failure.reason for failure in provider.check(URN, asked).failures}
    assert set(found) == {"argv", "files"}
    assert "install llama.cpp" in found["argv"]


def test_preview_predicts_and_starts_nothing(provider: Any, inputs: Any, place: Path) -> None:
    created = provider.create(URN, provider.checked(URN, inputs()), preview=True)
    outputs = wire.decode(created.properties)
    assert created.id == str(place / "processes" / "one")
    assert [outputs[key] for key in ("port", "url", "pid")] == [UNKNOWN] * 3
    assert not (place / "processes").exists()
    fixed = provider.create(URN, provider.checked(URN, inputs(port=18_999)), preview=True)
    assert wire.decode(fixed.properties)["url"] == "http://127.0.0.1:18999"


def test_preview_survives_inputs_that_are_not_known_yet(provider: Any, inputs: Any) -> None:
    created = provider.create(URN, provider.checked(URN, inputs(place=UNKNOWN, argv=UNKNOWN)), preview=True)
    assert created.id == ""
    assert wire.decode(created.properties)["logPath"] is UNKNOWN


def test_a_process_that_exits_is_a_partial_failure_with_reason_and_log(
    provider: Any, inputs: Any, partial_failure: Any, place: Path
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, provider.checked(URN, inputs("exit_3")))
    detail = partial_failure(caught.value)
    assert detail.id == str(place / "processes" / "one")
    assert detail.refresh_before_update
    assert detail.reasons[0].startswith("engine_exited: one: the process ended before it was ready (exit code 1)")
    assert detail.reasons[1] == "last log lines:\nfatal: cannot go on"
    outputs = wire.decode(detail.properties)
    assert (outputs["state"], outputs["reason"]) == ("failed", "engine_exited")
    assert not observe(Path(detail.id)).alive


@pytest.mark.parametrize(
    ("behaviour", "readiness", "code"),
    [
        ("sleep", {"path": "/health"}, "not_ready_in_time"),
        ("serve", {"path": "/health", "model": "another"}, "model_not_served"),
        ("serve_errors", {"path": "/health", "model": "tiny"}, "generation_failed"),
    ],
)
def test_alive_is_not_ready(
    provider: Any, inputs: Any, partial_failure: Any, behaviour: str, readiness: Inputs, code: str
) -> None:
    asked = provider.checked(URN, inputs(behaviour, readiness=readiness, startTimeoutS=0.8))
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, asked)
    detail = partial_failure(caught.value)
    assert detail.reasons[0].startswith(code)
    assert not observe(Path(detail.id)).alive


def test_the_limit_of_the_engine_counts_when_it_is_shorter(provider: Any, inputs: Any, partial_failure: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, provider.checked(URN, inputs("sleep")), timeout=0.3)
    assert "not ready after 0.3 s" in partial_failure(caught.value).reasons[0]


def test_ready_needs_a_generation_when_a_model_is_named(provider: Any, inputs: Any) -> None:
    asked = provider.checked(URN, inputs(readiness={"path": "/health", "model": "tiny"}))
    assert wire.decode(provider.create(URN, asked).properties)["state"] == "running"


def test_secrets_stay_secret_in_outputs_files_and_messages(
    provider: Any, inputs: Any, partial_failure: Any, place: Path
) -> None:
    leak = ["/bin/sh", "-c", "echo $KEY; exit 1", "{port}"]
    checked = provider.checked(URN, inputs(argv=leak, env={"KEY": Secret("hunter2")}))
    assert checked["env"] == {"KEY": Secret("hunter2")}
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, checked)
    detail = partial_failure(caught.value)
    assert "hunter2" not in "".join(detail.reasons)
    assert wire.decode(detail.properties)["env"] == {"KEY": Secret("hunter2")}
    files = [path for path in Path(detail.id).iterdir() if path.is_file() and path.name != "output.log"]
    assert not any("hunter2" in path.read_text() for path in files)


def test_a_failed_start_is_tried_again_by_an_update(
    provider: Any, inputs: Any, partial_failure: Any, place: Path, child: Callable[..., tuple[str, ...]]
) -> None:
    flag = place / "repaired"
    argv = ["/bin/sh", "-c", f"test -e {flag} && exec {' '.join(child('serve'))} $0", "{port}"]
    checked = provider.checked(URN, inputs(argv=argv))
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, checked)
    recorded = partial_failure(caught.value)
    read = provider.read(URN, recorded.id, checked, wire.decode(recorded.properties))
    assert list(provider.diff(URN, checked, wire.decode(read.properties), checked).diffs) == ["state"]
    flag.touch()
    outputs = wire.decode(provider.update(URN, recorded.id, checked, wire.decode(read.properties)).properties)
    assert outputs["state"] == "running"


def test_no_difference_while_it_runs(provider: Any, running: tuple[str, Inputs, Inputs]) -> None:
    _, checked, outputs = running
    assert provider.diff(URN, checked, outputs, checked).changes == p.DiffResponse.DIFF_NONE


def test_another_command_is_another_process_started_after_the_old_one(
    provider: Any, running: tuple[str, Inputs, Inputs]
) -> None:
    _, checked, outputs = running
    diff = provider.diff(URN, checked, outputs, checked | {"argv": ["other"]})
    assert (list(diff.replaces), diff.deleteBeforeReplace) == (["argv"], True)


def test_another_way_to_see_readiness_leaves_the_process_running(
    provider: Any, running: tuple[str, Inputs, Inputs]
) -> None:
    name, checked, outputs = running
    news = checked | {"readiness": {"path": "/v1/models"}}
    diff = provider.diff(URN, checked, outputs, news)
    assert (list(diff.diffs), list(diff.replaces)) == (["readiness"], [])
    assert wire.decode(provider.update(URN, name, news, outputs).properties)["pid"] == outputs["pid"]


def test_read_says_what_is(provider: Any, running: tuple[str, Inputs, Inputs]) -> None:
    name, checked, outputs = running
    read = provider.read(URN, name, checked, {})
    assert (read.id, wire.decode(read.inputs), wire.decode(read.properties)) == (name, checked, outputs)


def test_import_finds_the_inputs_of_what_runs(provider: Any, running: tuple[str, Inputs, Inputs]) -> None:
    name, checked, _ = running
    assert wire.decode(provider.read(URN, name, {}, {}).inputs) == checked


def test_a_process_that_was_never_started_is_gone(provider: Any, inputs: Any, place: Path) -> None:
    checked = provider.checked(URN, inputs())
    assert provider.read(URN, str(place / "processes" / "one"), checked, {}).id == ""


def test_what_died_meanwhile_comes_back_with_the_next_update(
    provider: Any, running: tuple[str, Inputs, Inputs], supervisor_of: Any, eventually: Any
) -> None:
    name, checked, outputs = running
    os.kill(supervisor_of(Path(name)), signal.SIGKILL)
    os.kill(outputs["pid"], signal.SIGKILL)
    eventually(lambda: not observe(Path(name)).alive)
    read = wire.decode(provider.read(URN, name, checked, outputs).properties)
    assert read["state"] == "stopped"
    assert list(provider.diff(URN, checked, read, checked).diffs) == ["state"]
    preview = wire.decode(provider.update(URN, name, checked, read, preview=True).properties)
    assert (preview["url"], preview["pid"]) == (outputs["url"], UNKNOWN)
    again = wire.decode(provider.update(URN, name, checked, read).properties)
    assert (again["state"], again["url"]) == ("running", outputs["url"])


def test_a_killed_supervisor_is_reported_and_replaced_without_a_gap(
    provider: Any, running: tuple[str, Inputs, Inputs], supervisor_of: Any, eventually: Any
) -> None:
    name, checked, outputs = running
    os.kill(supervisor_of(Path(name)), signal.SIGKILL)
    eventually(lambda: observe(Path(name)).state == "unsupervised")
    read = wire.decode(provider.read(URN, name, checked, outputs).properties)
    assert (read["state"], read["pid"]) == ("unsupervised", outputs["pid"])
    again = wire.decode(provider.update(URN, name, checked, read).properties)
    assert (again["state"], again["pid"]) == ("running", outputs["pid"])


def test_delete_stops_and_may_be_repeated(provider: Any, running: tuple[str, Inputs, Inputs], is_running: Any) -> None:
    name, checked, outputs = running
    provider.delete(URN, name, checked, outputs)
    provider.delete(URN, name, checked, outputs)
    assert not is_running(outputs["pid"])
    assert [path.name for path in Path(name).iterdir()] == ["output.log"]
    assert provider.read(URN, name, checked, outputs).id == ""


def test_readiness_over_a_unix_socket(provider: Any, inputs: Any, place: Path) -> None:
    socket = str(place / "s")
    serve = (
        "import socketserver, sys\n"
        "class H(socketserver.StreamRequestHandler):\n"
        "    def handle(self):\n"
        "        self.rfile.readline()\n"
        "        self.wfile.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n')\n"
        "socketserver.UnixStreamServer(sys.argv[1], H).serve_forever()\n"
    )
    argv = [inputs()["argv"][0], "-c", serve, socket]
    asked = provider.checked(URN, inputs(argv=argv, readiness={"kind": "unix", "socket": socket, "path": "/livez"}))
    outputs = wire.decode(provider.create(URN, asked).properties)
    assert (outputs["state"], outputs["port"], outputs["url"]) == ("running", 0, "")


def test_cancel_records_what_is_still_starting(
    start: Callable[..., Any], inputs: Any, partial_failure: Any, place: Path, eventually: Any, real: tuple[str, ...]
) -> None:
    provider = start(*real)
    asked = provider.checked(URN, inputs("sleep"))
    failures: list[grpc.RpcError] = []

    def create() -> None:
        with pytest.raises(grpc.RpcError) as caught:
            provider.create(URN, asked)
        failures.append(caught.value)

    call = threading.Thread(target=create)
    call.start()
    eventually(lambda: observe(place / "processes" / "one"))
    provider.stub.Cancel(Empty())
    call.join(timeout=5)
    detail = partial_failure(failures[0])
    assert detail.reasons[0].startswith("cancelled")
    assert observe(Path(detail.id)).alive


def test_the_state_is_readable_by_its_owner_only(running: tuple[str, Inputs, Inputs]) -> None:
    folder = Path(running[0])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "inputs.json").stat().st_mode) & 0o077 == 0
    assert json.loads((folder / "inputs.json").read_text())["name"] == "one"
