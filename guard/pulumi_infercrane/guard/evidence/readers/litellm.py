"""LiteLLM: standard logging payloads (JSON Lines), or rows of its spend log (JSON Lines or the array of `/spend/logs`).

`response_time` of a streamed call is the time to its first token, not its duration: only the three times are used.
Prompts and answers are never kept.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import bad, number, optional_count
from pulumi_infercrane.guard.evidence.reading.load_runs import reliability_of
from pulumi_infercrane.guard.evidence.reading.moments import from_text
from pulumi_infercrane.guard.evidence.reading.prices import stated_price
from pulumi_infercrane.guard.evidence.reading.request_log import RequestLog
from pulumi_infercrane.guard.evidence.records import Cost, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse, parse_lines

VERSIONS: tuple[str, ...] = ()

READS = "Standard logging payloads and spend logs: outcome, duration, first token of streamed calls, tokens, spend."
CANNOT_KNOW = (
    "Requests that never reached the proxy; whose fault a failure was: all count; whether a stream was cut; what the "
    "hardware cost: spend is a price per token, and a cost only for a service without an accelerator of its own."
)

TOLERATED_CACHE_SHARE = 0.05
_REVISION = "revision:"


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The requests of one model and revision tag; `select.model` and `select.tag` choose them out of a longer log.

    Raises:
        Inadmissible: `ambiguous_run`, `counters_disagree` for an id that occurs twice, `cache_bias`, or with the line.
    """
    check_kind(envelope, "benchmark", "reliability", "cost")
    log = _log(_entries(parts["primary"]), envelope.primary.select or {})
    run = log.run(envelope, "select.model or select.tag")
    if envelope.kind == "reliability":
        return reliability_of(run)
    return _cost(log.tokens(run), log, envelope) if envelope.kind == "cost" else run


def _entries(data: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if data.lstrip()[:1] != b"[":
        yield from ((f"line {number}", line) for number, line in enumerate(parse_lines(data), start=1))
        return
    for index, entry in enumerate(parse(data)):
        if not isinstance(entry, dict):
            raise Inadmissible("schema_unknown", f"[{index}]: not an object")
        yield f"[{index}]", entry


def _log(entries: Iterator[tuple[str, Mapping[str, Any]]], select: Mapping[str, Any]) -> RequestLog:
    log, cached = RequestLog(), 0
    for where, entry in entries:
        if not {"startTime", "endTime", "model"} <= entry.keys():
            raise Inadmissible("schema_unknown", f"{where}: no startTime, endTime and model: not a log of LiteLLM")
        if _is_selected(entry, select):
            cached += str(entry.get("cache_hit")) == "True"
            _append(log, entry, where)
    if cached > TOLERATED_CACHE_SHARE * len(log.rows.ok):
        raise Inadmissible("cache_bias", f"{cached} of {len(log.rows.ok)} answers came from the proxy's cache")
    return log


def _is_selected(entry: Mapping[str, Any], select: Mapping[str, Any]) -> bool:
    return entry["model"] == select.get("model", entry["model"]) and (
        "tag" not in select or select["tag"] in _tags(entry)
    )


def _tags(entry: Mapping[str, Any]) -> list[str]:
    tags = entry.get("request_tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _append(log: RequestLog, entry: Mapping[str, Any], where: str) -> None:
    identifier = entry.get("id", entry.get("request_id"))
    if not isinstance(identifier, str) or not identifier:
        raise bad(where, "no id and no request_id")
    started, ended = (_seconds(entry, name, where) for name in ("startTime", "endTime"))
    log.begin(identifier, str(entry["model"])[:80], _revisions(entry), started, ended, where)
    log.spend.append(_spend(entry, where))
    if _status(entry, where) != "success":
        return log.rows.fail(_error(entry))
    first = _first_token(entry, ended, where)
    tokens = [_tokens(entry, name, where) for name in ("prompt_tokens", "completion_tokens")]
    return log.complete(None if first is None else first - started, ended - started, *tokens)


def _revisions(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(tag.removeprefix(_REVISION) for tag in _tags(entry) if tag.startswith(_REVISION)))


def _status(entry: Mapping[str, Any], where: str) -> str:
    metadata = entry.get("metadata")
    status = entry.get("status") or (metadata.get("status") if isinstance(metadata, dict) else None)
    if status not in ("success", "failure"):
        raise Inadmissible(
            "schema_unknown", f"{where}: status is neither success nor failure: failures would be hidden"
        )
    return str(status)


def _first_token(entry: Mapping[str, Any], ended: float, where: str) -> float | None:
    """None for an answer in one piece, whose first token is logged as arriving with the last."""
    if entry.get("completionStartTime") is None or entry.get("stream", True) is not True:
        return None
    first = _seconds(entry, "completionStartTime", where)
    return first if first < ended else None


def _seconds(entry: Mapping[str, Any], name: str, where: str) -> float:
    """Seconds since 1970: a payload has a number, a spend log a text with its zone."""
    value = entry[name]
    return from_text(value, f"{where}: {name}").timestamp() if isinstance(value, str) else number(entry, name, where)


def _tokens(entry: Mapping[str, Any], name: str, where: str) -> float:
    tokens = optional_count(entry, name, where) if entry.get(name) is not None else None
    return math.nan if tokens is None else float(tokens)


def _spend(entry: Mapping[str, Any], where: str) -> float:
    name = "response_cost" if "response_cost" in entry else "spend"
    spend = number(entry, name, where) if entry.get(name) is not None else 0.0
    if spend < 0:
        raise bad(where, f"{name} is negative")
    return spend


def _error(entry: Mapping[str, Any]) -> str:
    metadata = entry.get("metadata")
    places = (entry.get("error_information"), metadata.get("error_information") if isinstance(metadata, dict) else None)
    codes = [str(place.get("error_code")) for place in places if isinstance(place, dict) and place.get("error_code")]
    return codes[0][:40] if codes else "unnamed"


def _cost(tokens: Cost, log: RequestLog, envelope: Envelope) -> Cost:
    """Spend is what a service without an accelerator costs; beside one it says nothing, and there are only tokens."""
    if envelope.subject.accelerator.count:
        return tokens
    price = stated_price(envelope)
    return replace(
        tokens,
        currency=price.currency,
        price_source=price.source,
        price_date=price.date,
        gpu_cost=0.0,
        other_cost=math.fsum(log.spend),
    )
