"""OpenTelemetry spans, by the semantic conventions for HTTP servers and for generative AI, sent by OTLP.

Where they go, and how, is said by the standard variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, …
"""

from collections.abc import Sequence
from time import sleep
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.protocol.paths import PROTOCOL_OF
from pulumi_infercrane.router.telemetry.requests import Ended
from pulumi_infercrane.router.telemetry.trace_context import Span

GIVE_WAY = 16
"""After so many spans the event loop may have the interpreter."""

_SERVICE = "infercrane-router"
_OPERATIONS = {"chat": "chat", "completions": "text_completion", "embeddings": "embeddings", "responses": "chat"}
_NO_FAULT = frozenset({Outcome.COMPLETE, Outcome.UNOBSERVED})
_SCOPE = InstrumentationScope("pulumi_infercrane.router")


class Spans:
    """A listener that exports the sampled ones in batches."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        self._processor = BatchSpanProcessor(exporter or OTLPSpanExporter())
        self._resource = Resource({SERVICE_NAME: _SERVICE}).merge(OTELResourceDetector().detect())

    def note(self, ended: Sequence[Ended]) -> list[Ended]:
        return [one for one in ended if one.asked.span is not None and one.asked.span.sampled]

    def tell(self, noted: Sequence[Ended]) -> None:
        for number, ended in enumerate(noted, start=1):
            if ended.asked.span is not None:
                self._processor.on_end(span_of(ended, ended.asked.span, self._resource))
            if number % GIVE_WAY == 0:
                sleep(0)

    def close(self) -> None:
        """Export what is waiting."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]


def span_of(ended: Ended, span: Span, resource: Resource) -> ReadableSpan:
    """One span for one request, from its arrival to the end of its answer."""
    asked, end = ended.asked, round(ended.at * 1e9)
    operation = _OPERATIONS.get(PROTOCOL_OF.get(asked.path, ""), "")
    line = b"%b %b" % (asked.method, asked.path)
    return ReadableSpan(
        f"{operation} {asked.model}" if operation and asked.model else _text(line).strip() or "HTTP",
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=_attributes(ended, operation),
        kind=SpanKind.SERVER,
        status=_status(ended.outcome, ended.status),
        start_time=end - round(ended.seconds * 1e9),
        end_time=end,
        instrumentation_scope=_SCOPE,
    )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _status(outcome: Outcome, status: int | None) -> Status:
    """A fault of the client's, or its leaving, is no error of this server."""
    fault = status is not None and status >= 500
    cut = outcome not in _NO_FAULT and outcome is not Outcome.CLIENT_CANCELLED and (status or 0) < 300
    return Status(StatusCode.ERROR, outcome) if fault or cut else Status(StatusCode.UNSET)


def _attributes(ended: Ended, operation: str) -> dict[str, Any]:
    asked = ended.asked
    found = {
        "http.request.method": _text(asked.method),
        "url.path": _text(asked.path),
        "http.response.status_code": ended.status,
        "client.address": _text(asked.peer),
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openai" if operation else "",  # what is spoken; who answers is in infercrane.revision
        "gen_ai.request.model": asked.model,
        "gen_ai.usage.input_tokens": ended.prompt_tokens,
        "gen_ai.usage.output_tokens": ended.completion_tokens,
        "gen_ai.response.time_to_first_chunk": ended.ttft_s,
        "error.type": "" if ended.outcome in _NO_FAULT else ended.reason or ended.outcome.value,
        "infercrane.outcome": ended.outcome.value,
        "infercrane.service": ended.service,
        "infercrane.revision": ended.revision,
        "infercrane.upstream": ended.upstream,
        "infercrane.attempt": ended.attempt or None,
        "infercrane.queued_s": asked.queued_s,
        "infercrane.request_id": _text(asked.request_id),
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def _text(received: bytes) -> str:
    return received.decode("latin-1")
