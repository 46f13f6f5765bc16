"""OpenTelemetry: what a span says, and that a real exporter brings it to a real OTLP receiver."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from time import monotonic
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pulumi_infercrane.router.tables.calls import Flip
from pulumi_infercrane.router.telemetry.spans import Spans
from pulumi_infercrane.router.telemetry.telemetry import Telemetry
from tests.router.client import Client, chat
from tests.router.conftest import R1, Running, declared, revision
from tests.router.upstream import ANSWER, Call, Upstream, delta, event, whole

PARENT = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = PARENT[:-2] + "00"


@pytest.fixture
def exported(router: Running) -> Callable[[], tuple[ReadableSpan, ...]]:
    """The spans of a router, once all are told."""
    exporter = InMemorySpanExporter()
    relay = router.parts.relay
    relay.telemetry = Telemetry([Spans(exporter)], relay.traffic.told, relay.clock, trace_sample=1)

    def closed() -> tuple[ReadableSpan, ...]:
        assert relay.telemetry is not None
        relay.telemetry.close()
        relay.telemetry = None
        return exporter.get_finished_spans()

    return closed


async def test_a_stream_is_one_span_below_the_clients(
    client: Client, upstream: Upstream, exported: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    calls: list[Call] = []

    async def answer(call: Call) -> None:
        calls.append(call)
        await call.stream(delta(), event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}))
        await call.end_stream()

    upstream.script = answer
    await client.ask(chat(True, PARENT, "tracestate: vendor=1"))
    (span,) = exported()
    assert (span.name, span.kind, span.status.status_code) == ("chat chat", SpanKind.SERVER, StatusCode.UNSET)
    assert span.context is not None and span.parent is not None and span.attributes is not None
    assert f"{span.context.trace_id:032x}" == PARENT[16:48]
    assert f"{span.parent.span_id:016x}" == PARENT[49:65]
    assert calls[0].header("traceparent") == f"00-{PARENT[16:48]}-{span.context.span_id:016x}-01"
    assert calls[0].header("tracestate") == "vendor=1"
    found = dict(span.attributes)
    assert found.pop("gen_ai.response.time_to_first_chunk") > 0
    assert found.pop("infercrane.request_id")
    assert found == {
        "http.request.method": "POST",
        "url.path": "/v1/chat/completions",
        "http.response.status_code": 200,
        "client.address": "127.0.0.1",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "chat",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "infercrane.outcome": "complete",
        "infercrane.service": "chat",
        "infercrane.revision": R1,
        "infercrane.upstream": "r1-0",
        "infercrane.attempt": 1,
    }


async def test_a_trace_that_begins_here_drops_the_state_of_none(
    client: Client, upstream: Upstream, exported: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    calls: list[Call] = []

    async def answer(call: Call) -> None:
        calls.append(call)
        await call.send(whole(ANSWER))

    upstream.script = answer
    await client.ask(chat(False, "traceparent: nonsense", "tracestate: vendor=1"))
    (span,) = exported()
    assert span.parent is None and span.context is not None
    assert calls[0].header("traceparent") == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"
    assert calls[0].header("tracestate") is None


async def test_who_does_not_sample_is_not_exported(
    client: Client, exported: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    await client.ask(chat(False, UNSAMPLED))
    assert exported() == ()


async def test_an_upstream_that_breaks_off_is_an_error(
    client: Client, upstream: Upstream, exported: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    async def half(call: Call) -> None:
        await call.stream(delta())
        call.writer.close()

    upstream.script = half
    await client.ask(chat())
    (span,) = exported()
    assert span.attributes is not None
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "truncated")


async def test_a_fault_of_the_client_is_none_of_ours(
    client: Client, exported: Callable[[], tuple[ReadableSpan, ...]]
) -> None:
    await client.ask(chat(model="other"))
    (span,) = exported()
    assert span.attributes is not None
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.UNSET, "model_not_found")


async def test_without_traces_the_clients_context_goes_through_untouched(client: Client, upstream: Upstream) -> None:
    calls: list[Call] = []

    async def answer(call: Call) -> None:
        calls.append(call)
        await call.send(whole(ANSWER))

    upstream.script = answer
    await client.ask(chat(False, PARENT, "tracestate: vendor=1"))
    assert (calls[0].header("traceparent"), calls[0].header("tracestate")) == (PARENT[13:], "vendor=1")


class _Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.requests: Queue[Any] = Queue()

    def Export(self, request: Any, context: Any) -> Any:
        self.requests.put(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def receiver() -> Iterator[tuple[_Receiver, int]]:
    """A real OTLP receiver, and its port."""
    server, servicer = grpc.server(ThreadPoolExecutor(1)), _Receiver()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, port
    server.stop(0).wait()


async def test_a_router_process_exports_by_the_standard_variables(
    start_process: Callable[..., Any],
    upstream: Upstream,
    receiver: tuple[_Receiver, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servicer, port = receiver
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    process = start_process(options=("--trace-sample", "1")).wait_ready()
    async with process.client() as control:
        await control.put("chat", declared({R1: revision("r1", upstream.url)}), if_match=None)
        await control.flip("chat", Flip("", R1, "decision-1"))
    async with await Client.connect(process.port) as client:
        await client.ask(chat(False))
    process.terminate()
    began = monotonic()
    await process.ended()
    assert monotonic() - began < 5
    (resource,) = servicer.requests.get(timeout=5).resource_spans
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes == {"service.name": "infercrane-router", "deployment.environment": "test"}
    assert [span.name for span in resource.scope_spans[0].spans] == ["chat chat"]
