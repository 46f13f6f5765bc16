"""promptfoo: the JSON that `promptfoo eval -o out.json` writes, results version 3.

A file has one column per prompt and provider; an envelope is about one of them, so the same file may hold both sides.
Results come in no order and are paired by `testIdx`. A test passes when all its assertions do.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field
from pulumi_infercrane.guard.evidence.reading.moments import check_times
from pulumi_infercrane.guard.evidence.reading.scored import (
    check_version,
    chosen,
    identity,
    require_kind,
    rule_name,
    selection,
    text_digest,
)
from pulumi_infercrane.guard.evidence.reading.stated import Stated, from_iso
from pulumi_infercrane.guard.evidence.records import Answer, Quality
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.guard.times import format_time, parse_time

VERSIONS = ("0.123",)
READS = "One prompt and provider of a JSON result: pass or fail per test, errors included; the task is `scenario.id`."
CANNOT_KNOW = (
    "Failures that a retry hid, what the requests cost (0 for a model it has no price of), which revision answered."
)

METRIC = "pass"
RESULTS_VERSION = 3

_ERROR = 2
_REASONS = (0, 1, _ERROR)
"""No failure, a failed assertion, an error instead of an answer."""


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Quality:
    """The column that the envelope selects with `prompt`, its number from 0, or `provider`, its label.

    Raises:
        Inadmissible: with the reason code and the field or test.
    """
    require_kind(envelope, "promptfoo", "quality")
    document = _document(parts["primary"])
    check_version(_mapping(document, "metadata").get("promptfooVersion"), envelope, "metadata.promptfooVersion")
    check_times(envelope, *_times(document))
    results = document["results"]
    columns = [column for column in field(results, "prompts", list, "results") if isinstance(column, dict)]
    index = _column(columns, envelope)
    rows = _rows(results, index)
    _check_counts(results, columns[index], rows)
    _check_cache(columns[index], rows)
    return Quality(
        task=rule_name(envelope.scenario.id),
        metric=METRIC,
        tasks_digest=_tasks_digest(columns[index], rows),
        answers={str(row["testIdx"]): _answer(row) for row in rows},
    )


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version, and start and duration of the evaluation."""
    document = _document(parts["primary"])
    return Stated(str(_mapping(document, "metadata").get("promptfooVersion") or ""), *_times(document))


def _times(document: Mapping[str, Any]) -> tuple[str, str]:
    started = from_iso(_mapping(document, "metadata").get("evaluationCreatedAt"))
    lasted = _mapping(document["results"], "stats").get("durationMs")
    if not started or not isinstance(lasted, int) or not 0 <= lasted < 1e9:
        return started, ""
    return started, format_time(parse_time(started) + timedelta(milliseconds=lasted, seconds=1))


def _document(data: bytes) -> Mapping[str, Any]:
    document = parse(data)
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, dict) or "prompts" not in results or "stats" not in results:
        raise Inadmissible("schema_unknown", "not a result of promptfoo: it has no results with prompts and stats")
    if results.get("version") != RESULTS_VERSION:
        raise Inadmissible("version_unknown", f"results version {results.get('version')!r}, known is {RESULTS_VERSION}")
    return {**document, "results": results}


def _column(columns: Sequence[Mapping[str, Any]], envelope: Envelope) -> int:
    select = selection(envelope, "prompt", "provider")
    labels = [field(column, "provider", str, "results.prompts") for column in columns]
    if not labels:
        raise Inadmissible("no_scores", "there is no prompt in results.prompts")
    by_name = [str(index) for index, label in enumerate(labels) if label == select.get("provider", label)]
    if not by_name:
        raise bad("select.provider", f"{select['provider']!r} is not among {', '.join(sorted(set(labels)))}")
    return int(chosen("prompt", by_name, select))


def _rows(results: Mapping[str, Any], index: int) -> Sequence[Mapping[str, Any]]:
    rows = [row for row in field(results, "results", list, "results") if _mapping_of(row).get("promptIdx") == index]
    if not rows:
        raise Inadmissible("no_scores", f"there is no result of prompt {index}")
    tests = [count(row, "testIdx", "results.results") for row in rows]
    if len(set(tests)) < len(tests):
        raise Inadmissible("counters_disagree", f"a test of prompt {index} has two results")
    return sorted(rows, key=lambda row: int(row["testIdx"]))


def _check_counts(results: Mapping[str, Any], column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Errors drop out of promptfoo's pass rate; here every result counts."""
    stats, metrics = field(results, "stats", dict, "results"), field(column, "metrics", dict, "results.prompts")
    total = sum(count(stats, name, "results.stats") for name in ("successes", "failures", "errors"))
    if total != len(results["results"]):
        raise Inadmissible("counters_disagree", f"{len(results['results'])} results, the statistics count {total}")
    names = ("testPassCount", "testFailCount", "testErrorCount")
    counted = sum(count(metrics, name, "results.prompts.metrics") for name in names)
    if counted != len(rows):
        raise Inadmissible("counters_disagree", f"{len(rows)} results of one prompt, its metrics count {counted}")


def _check_cache(column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """An answer from a cache is not one of this revision."""
    cached = sum(_mapping(row, "response").get("cached") is True for row in rows)
    tokens = _mapping(_mapping(column, "metrics"), "tokenUsage").get("cached", 0)
    if cached or tokens:
        raise Inadmissible(
            "cache_bias", f"{cached} of {len(rows)} answers, {tokens} tokens, come from promptfoo's cache"
        )


def _answer(row: Mapping[str, Any]) -> Answer:
    where = f"test {row['testIdx']}"
    reason = row.get("failureReason")
    if reason not in _REASONS:
        raise bad(where, f"failureReason {reason!r} is not one of {', '.join(map(str, _REASONS))}")
    success = field(row, "success", bool, where)
    if success and reason:
        raise Inadmissible("inconsistent", f"{where}: a success with a failure reason")
    ok = reason != _ERROR
    response = _mapping(row, "response")
    output = response.get("output")
    return Answer(
        score=float(success),
        ok=ok,
        empty=output is None or (isinstance(output, str) and not output.strip()),
        cut=response["finishReason"] == "length" if "finishReason" in response else None,
        text_sha256=text_digest(output) if ok and output is not None else "",
    )


def _tasks_digest(column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    tests = [[row["testIdx"], _mapping(row, "vars"), _mapping(row, "testCase").get("assert")] for row in rows]
    return identity({"prompt": str(column.get("raw")), "tests": text_digest(tests)})


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _mapping_of(parent.get(name))


def _mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
