"""The provider process as the engine sees it: protocol, errors, and its own end."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import engine_pb2_grpc, plugin_pb2
from pulumi.runtime.proto import provider_pb2 as p

from pulumi_infercrane.components.plugin import wire
from pulumi_infercrane.components.plugin.wire import UNKNOWN, Secret

URN = "urn:pulumi:dev::proj::infercrane:index:Service$infercrane:index:Toy::my::toy"
TOY = [sys.executable, __file__.replace("test_server.py", "toy_provider.py")]


class Engine(engine_pb2_grpc.EngineServicer):
    """The part of the engine that plugins call."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        engine_pb2_grpc.add_EngineServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Log(self, request: Any, context: Any) -> Empty:
        self.messages.append(request)
        return Empty()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.server.stop(0).wait()


def test_first_line_is_the_port_and_unknown_flags_are_ignored(start: Callable[..., Any]) -> None:
    provider = start("-m", "pulumi_infercrane.components.plugin.server", "--logtostderr", "-v=9", "127.0.0.1:1")
    assert int(provider.first_line) > 0


def test_handshake_asks_for_secrets_only(toy: Any) -> None:
    answer = toy.stub.Handshake(p.ProviderHandshakeRequest(engine_address="127.0.0.1:1"))
    assert (answer.accept_secrets, answer.accept_outputs, answer.accept_resources) == (True, False, False)


def test_directories_of_the_handshake_reach_the_resource(toy: Any) -> None:
    toy.stub.Handshake(p.ProviderHandshakeRequest(root_directory="/project"))
    assert wire.decode(toy.create(URN, {"behave": "where"}).properties) == {"root": "/project"}


def test_configuration_is_accepted_and_never_a_reason_to_replace(toy: Any) -> None:
    assert toy.stub.Configure(p.ConfigureRequest()).supportsPreview
    assert toy.stub.CheckConfig(p.CheckRequest(news=wire.encode({"a": 1}))).inputs == wire.encode({"a": 1})
    assert toy.stub.DiffConfig(p.DiffRequest()).changes == p.DiffResponse.DIFF_NONE


def test_plugin_info_carries_the_version(toy: Any) -> None:
    assert isinstance(toy.stub.GetPluginInfo(Empty()), plugin_pb2.PluginInfo)
    assert toy.stub.GetPluginInfo(Empty()).version.count(".") == 2


def test_schema_lists_the_resource_types(toy: Any) -> None:
    schema = json.loads(toy.stub.GetSchema(p.GetSchemaRequest()).schema)
    assert schema["name"] == "infercrane"
    assert list(schema["resources"]) == ["infercrane:index:Toy"]


def test_check_tells_first_creation_from_an_empty_past(toy: Any) -> None:
    first = wire.decode(toy.check(URN, {}).inputs)["seen"]
    later = wire.decode(toy.check(URN, {}, olds={"a": 1}, old_outputs={"b": 2}).inputs)["seen"]
    assert first == {"name": "my::toy", "olds": None, "old_outputs": None}
    assert later == {"name": "my::toy", "olds": {"a": 1}, "old_outputs": {"b": 2}}


def test_check_failures_name_the_property(toy: Any) -> None:
    [failure] = toy.check(URN, {"behave": "badly"}).failures
    assert (failure.property, failure.reason) == ("behave", "not like this")


def test_diff_names_every_change_and_what_forces_a_replacement(toy: Any) -> None:
    same = toy.diff(URN, {"a": 1}, {}, {"a": 1})
    assert (same.changes, list(same.diffs)) == (p.DiffResponse.DIFF_NONE, [])
    diff = toy.diff(URN, {"name": "x", "a": 1}, {}, {"name": "y", "a": 2})
    assert (diff.changes, set(diff.diffs), set(diff.replaces)) == (p.DiffResponse.DIFF_SOME, {"name", "a"}, {"name"})
    assert diff.hasDetailedDiff
    assert diff.deleteBeforeReplace
    assert diff.detailedDiff["name"].kind == p.PropertyDiff.UPDATE_REPLACE
    assert diff.detailedDiff["a"].inputDiff


def test_markers_survive_the_way_through_a_resource(toy: Any) -> None:
    inputs = {"key": Secret("k"), "url": UNKNOWN}
    assert wire.decode(toy.create(URN, inputs, preview=True).properties) == inputs


def test_every_answer_repeats_that_the_resource_is_refreshed_first(toy: Any) -> None:
    assert toy.create(URN, {}).refresh_before_update
    assert toy.read(URN, "toy/1", {}, {}).refresh_before_update
    assert toy.update(URN, "toy/1", {}, {}).refresh_before_update
    toy.delete(URN, "toy/1", {}, {})


@pytest.mark.parametrize(
    ("behave", "code", "text"),
    [
        ("fail", grpc.StatusCode.ABORTED, "nothing was changed"),
        ("domain", grpc.StatusCode.FAILED_PRECONDITION, "component_error: the way out is there"),
        ("crash", grpc.StatusCode.INTERNAL, "Create failed: ZeroDivisionError: hidden defect"),
    ],
)
def test_no_exception_escapes(toy: Any, behave: str, code: grpc.StatusCode, text: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        toy.create(URN, {"behave": behave})
    assert caught.value.code() == code
    assert text in caught.value.details()
    assert "Traceback" not in caught.value.details()


def test_partial_failure_carries_id_outputs_and_long_reasons(toy: Any, partial_failure: Callable[..., Any]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        toy.create(URN, {"behave": "half"})
    detail = partial_failure(caught.value)
    assert (detail.id, wire.decode(detail.properties)) == ("toy/1", {"state": "failed"})
    assert [len(reason) for reason in detail.reasons] == [17, 50_000]
    assert detail.refresh_before_update


def test_unknown_type_and_unhosted_component_are_unimplemented(toy: Any) -> None:
    for call in (
        lambda: toy.create("urn:pulumi:dev::proj::infercrane:index:Nothing::n", {}),
        lambda: toy.stub.Construct(p.ConstructRequest()),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_messages_reach_the_engine_of_the_command_line_and_of_attach(start: Callable[..., Any], engine: Engine) -> None:
    started = start(TOY[1], engine.address)
    attached = start(TOY[1])
    attached.stub.Attach(plugin_pb2.PluginAttach(address=engine.address))
    for provider in (started, attached):
        provider.create(URN, {"behave": "tell"})
    assert [(m.message, m.urn) for m in engine.messages] == [("look at this", URN)] * 2


def test_messages_beyond_the_four_megabytes_of_grpc_pass(toy: Any) -> None:
    large = {"text": "x" * 20_000_000}
    assert toy.create(URN, large, preview=True).ByteSize() > 20_000_000


def test_cancel_ends_waits(start: Callable[..., Any]) -> None:
    provider = start(TOY[1])
    call = provider.stub.Create.future(p.CreateRequest(urn=URN, properties=wire.encode({"behave": "wait"})))
    provider.stub.Cancel(Empty())
    assert wire.decode(call.result(timeout=5).properties) == {"ended": "early"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_within_the_grace_of_the_engine(start: Callable[..., Any], number: int) -> None:
    provider = start(TOY[1])
    call = provider.stub.Create.future(p.CreateRequest(urn=URN, properties=wire.encode({"behave": "wait"})))
    provider.stub.GetPluginInfo(Empty())
    provider.process.send_signal(number)
    assert provider.process.wait(timeout=5) == 0
    assert wire.decode(call.result(timeout=1).properties) == {"ended": "early"}


def test_dies_with_an_engine_that_is_killed(engine: Engine) -> None:
    process = subprocess.Popen([*TOY, engine.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        engine.server.stop(0).wait()
        process.stdin.close()
        assert process.wait(timeout=10) == 0


def test_outlives_the_end_of_stdin_while_the_engine_answers(start: Callable[..., Any], engine: Engine) -> None:
    provider = start(TOY[1], engine.address)
    provider.process.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        provider.process.wait(timeout=1)
    assert provider.create(URN, {}).id == "toy/1"
