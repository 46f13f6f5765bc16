"""OpenTelemetry: OTLP as JSON Lines (the file exporter), spans or log records with the GenAI semantic conventions.

A span says how long a request took. A log record (`gen_ai.client.inference.operation.details`) is a moment: it gives
outcomes and tokens only. Attributes with prompts and answers are never kept.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import MAX_EXACT, bad
from pulumi_infercrane.guard.evidence.reading.load_runs import reliability_of
from pulumi_infercrane.guard.evidence.reading.request_log import RequestLog
from pulumi_infercrane.guard.evidence.records import Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse_lines

VERSIONS: tuple[str, ...] = ()

READS = "OTLP JSON Lines with GenAI attributes: spans (outcome, duration, first chunk, tokens) or log records of them."
CANNOT_KNOW = (
    "Requests that were sampled away or never instrumented; whose fault a failure was: all count; whether a stream "
    "was cut, unless it is marked as an error; money; durations from log records."
)

OPERATIONS = ("chat", "text_completion", "generate_content")
"""`gen_ai.operation.name` of a request to a model; other spans, of tools or agents, are passed over."""
_LISTS = {"resourceSpans": ("scopeSpans", "spans"), "resourceLogs": ("scopeLogs", "logRecords")}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_FAILED_STATUS = (2, "STATUS_CODE_ERROR")

Attributes = Mapping[str, Any]


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The requests whose attributes, or those of their resource, are as `select` says.

    Raises:
        Inadmissible: `ambiguous_run` for several models, service versions or kinds of span; `no_evidence` without a
            request to a model; `tool_unknown` for a benchmark of log records.
    """
    check_kind(envelope, "benchmark", "reliability", "cost")
    kind = envelope.kind
    log = RequestLog()
    for number, line in enumerate(parse_lines(parts["primary"]), start=1):
        where = f"line {number}"
        for list_name, resource in _resources(line, where):
            if list_name == "resourceLogs" and kind == "benchmark":
                raise Inadmissible("tool_unknown", "log records hold no durations: give spans for a benchmark")
            _append_all(log, resource, _LISTS[list_name], envelope.primary.select or {}, where)
    run = log.run(envelope, "select, by attribute")
    if kind == "reliability":
        return reliability_of(run)
    return log.tokens(run) if kind == "cost" else run


def _resources(line: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    names = [name for name in _LISTS if name in line]
    if len(names) != 1:
        raise Inadmissible("schema_unknown", f"{where}: neither resourceSpans nor resourceLogs: not OTLP")
    yield from ((names[0], resource) for resource in _objects(line, names[0], where))


def _objects(mapping: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    found = mapping.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Inadmissible("schema_unknown", f"{where}: {name} is not a list of objects")
    return found


def _append_all(
    log: RequestLog, resource: Mapping[str, Any], names: tuple[str, str], select: Mapping[str, Any], where: str
) -> None:
    about = resource.get("resource")
    common = _attributes(about, where) if isinstance(about, dict) else {}
    for scope in _objects(resource, names[0], where):
        for record in _objects(scope, names[1], where):
            attributes = common | _attributes(record, where)
            if attributes.get("gen_ai.operation.name") not in OPERATIONS:
                continue
            if all(attributes.get(key) == value for key, value in select.items()):
                _append(log, record, attributes, where)


def _attributes(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Texts, numbers and truth values by name; lists and structures, where texts of prompts may be, are left out."""
    found: dict[str, Any] = {}
    for pair in _objects(record, "attributes", where):
        key, value = pair.get("key"), pair.get("value")
        if not isinstance(key, str) or not isinstance(value, dict):
            raise Inadmissible("schema_unknown", f"{where}: an attribute without key and value")
        if key in found:
            raise Inadmissible("duplicate_key", f"{where}: attribute {key[:60]!r} occurs twice")
        found[key] = _simple(value, f"{where}: {key[:60]}")
    return found


def _simple(value: Mapping[str, Any], where: str) -> Any:
    if "intValue" in value:
        return _integer(value["intValue"], where)
    return next((value[name] for name in ("stringValue", "doubleValue", "boolValue") if name in value), None)


def _integer(value: Any, where: str) -> int:
    """OTLP writes 64-bit integers as text; some exporters write numbers."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise bad(where, "not an integer")
    return value


def _append(log: RequestLog, record: Mapping[str, Any], attributes: Attributes, where: str) -> None:
    is_span = "startTimeUnixNano" in record
    started = _seconds(record, "startTimeUnixNano" if is_span else "timeUnixNano", where)
    ended = _seconds(record, "endTimeUnixNano", where) if is_span else started
    log.begin(_identifier(record, where), _model(attributes), _labels(record, attributes), started, ended, where)
    error = _error(record, attributes)
    if error:
        return log.rows.fail(error)
    tokens = [_tokens(attributes, f"gen_ai.usage.{side}_tokens", where) for side in ("input", "output")]
    first = attributes.get("gen_ai.response.time_to_first_chunk")
    if first is not None and (isinstance(first, bool) or not isinstance(first, int | float)):
        raise bad(where, "gen_ai.response.time_to_first_chunk is not a number")
    return log.complete(first, _duration(record, where) if is_span else math.nan, *tokens)


def _identifier(record: Mapping[str, Any], where: str) -> str:
    """Trace and span. Log records of one span may be several; then the event cannot be told apart, and is refused."""
    trace, span = record.get("traceId"), record.get("spanId")
    if not isinstance(trace, str) or not isinstance(span, str) or not span:
        raise bad(where, "no traceId and spanId")
    return f"{trace} {span}"


def _model(attributes: Attributes) -> str:
    """As it was asked for: a failed request has no other name of it."""
    return str(attributes.get("gen_ai.request.model", attributes.get("gen_ai.response.model", "")))[:80]


def _labels(record: Mapping[str, Any], attributes: Attributes) -> tuple[str, ...]:
    """Service version and kind of span: a client's and a server's span may be of one request."""
    version = attributes.get("service.version")
    labels = () if version is None else (str(version)[:80],)
    return (*labels, f"kind {str(record['kind'])[:20]}") if "kind" in record else labels


def _error(record: Mapping[str, Any], attributes: Attributes) -> str:
    if attributes.get("error.type") is not None:
        return str(attributes["error.type"])[:40]
    status = record.get("status")
    return "unnamed" if isinstance(status, dict) and status.get("code") in _FAILED_STATUS else ""


def _nanoseconds(record: Mapping[str, Any], name: str, where: str) -> int:
    value = _integer(record.get(name), f"{where}: {name}")
    if value <= 0:
        raise bad(where, f"{name} is no time")
    return value


def _seconds(record: Mapping[str, Any], name: str, where: str) -> float:
    return _nanoseconds(record, name, where) / 1e9


def _duration(record: Mapping[str, Any], where: str) -> float:
    """Of whole nanoseconds: as seconds since 1970 they would lose a quarter of a microsecond."""
    ended, started = (_nanoseconds(record, f"{name}TimeUnixNano", where) for name in ("end", "start"))
    return (ended - started) / 1e9


def _tokens(attributes: Attributes, name: str, where: str) -> float:
    tokens = attributes.get(name)
    if tokens is None:
        return math.nan
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= MAX_EXACT:
        raise bad(where, f"{name} is not a count")
    return float(tokens)
