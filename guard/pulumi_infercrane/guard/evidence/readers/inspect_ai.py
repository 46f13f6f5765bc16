"""inspect_ai logs: the `.eval` archive (`header.json`, `samples/*.json`) or the one document `inspect log dump` prints.

`results.total_samples` is what was planned, `status` whether the run came to its end. One envelope is about one scorer;
several epochs of one sample are averaged before pairing, or repeats would count as independent.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.archive import members
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field
from pulumi_infercrane.guard.evidence.reading.moments import check_times
from pulumi_infercrane.guard.evidence.reading.scored import (
    averaged,
    check_version,
    chosen,
    identity,
    require_kind,
    rule_name,
    selection,
    share,
    text_digest,
)
from pulumi_infercrane.guard.evidence.reading.stated import Stated, from_iso
from pulumi_infercrane.guard.evidence.records import Answer, Quality, Score
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS = ("0.3",)
READS = "One scorer of a log, `.eval` or dumped as JSON: a score per sample, its epochs averaged."
CANNOT_KNOW = "Which revision answered; the model's name in a log is whatever the run was told to call it."

LOG_VERSION = 2
"""The layout of the log itself, the same from 0.3.42 to 0.3.285."""

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partially correct, incorrect, no answer."""
_CUT = ("max_tokens", "model_length")


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Quality:
    """The scorer that the envelope selects with `scorer`; it need not when there is only one.

    Raises:
        Inadmissible: with the reason code and the field or sample.
    """
    require_kind(envelope, "inspect_ai", "quality")
    header, samples = _log(parts["primary"])
    _check_header(header, envelope)
    check_times(envelope, *_times(header))
    spec = field(header, "eval", dict, "")
    scores = _scores(header)
    scorer = chosen("scorer", scores.keys(), selection(envelope, "scorer"))
    passes = _passes(samples, scorer)
    _check_whole(header, passes)
    planned = _sample_ids(spec)
    return Quality(
        task=rule_name(field(spec, "task", str, "eval")),
        metric=rule_name(scorer),
        tasks_digest=_tasks_digest(spec, scorer, planned),
        answers={sample: averaged(answers) for sample, answers in passes.items()},
        summary=_summary(header, scores[scorer]),
        planned=len(planned) or None,
        notes=("dirty_revision",) if _mapping(spec, "revision").get("dirty") is True else (),
    )


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version, window and the number of samples."""
    header, _ = _log(parts["primary"])
    spec = _mapping(header, "eval")
    started, ended = _times(header)
    return Stated(
        tool_version=str(_mapping(spec, "packages").get("inspect_ai") or ""),
        started_at=started,
        ended_at=ended,
        planned=len(_sample_ids(spec)) or None,
    )


def _times(header: Mapping[str, Any]) -> tuple[str, str]:
    stats = _mapping(header, "stats")
    return from_iso(stats.get("started_at")), from_iso(stats.get("completed_at"))


def _log(data: bytes) -> tuple[Mapping[str, Any], Iterable[Any]]:
    """The log without its samples, and the samples, which an archive yields one by one."""
    if data.startswith(b"PK"):
        return _header(data), (parse(content) for _, content in members(data, _is_sample))
    log = parse(data)
    if not isinstance(log, dict) or "eval" not in log or "status" not in log:
        raise Inadmissible("schema_unknown", "not a log of inspect_ai: it has no eval and status")
    samples = log.get("samples")
    return log, samples if isinstance(samples, list) else []


def _header(data: bytes) -> Mapping[str, Any]:
    for _, content in members(data, "header.json".__eq__):
        header = parse(content)
        if isinstance(header, dict):
            return header
    raise Inadmissible("truncated", "the archive has no header.json: the run did not come to its end")


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _check_header(header: Mapping[str, Any], envelope: Envelope) -> None:
    if header.get("version") != LOG_VERSION:
        raise Inadmissible("version_unknown", f"log version {header.get('version')!r}, known is {LOG_VERSION}")
    check_version(
        _mapping(_mapping(header, "eval"), "packages").get("inspect_ai"), envelope, "eval.packages.inspect_ai"
    )
    if header.get("status") != "success":
        raise Inadmissible("truncated", f"status is {header.get('status')!r}: the run did not come to its end")
    if header.get("invalidated"):
        raise Inadmissible("inconsistent", "the log is marked as invalidated")
    if header.get("log_updates"):
        raise Inadmissible("inconsistent", "the log was edited after the run (log_updates)")


def _scores(header: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The results' scores by name. One score may occur several times, once per way of reducing epochs."""
    listed = _mapping(header, "results").get("scores")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if not entries:
        raise Inadmissible("no_scores", "the log has no scores, although its status is success")
    return {field(entry, "name", str, "results.scores"): entry for entry in reversed(entries)}


def _sample_ids(spec: Mapping[str, Any]) -> list[str]:
    """Ids of the samples that were to run: a run may take a part of its data set."""
    listed = _mapping(spec, "dataset").get("sample_ids")
    return sorted(str(identifier) for identifier in listed) if isinstance(listed, list) else []


def _tasks_digest(spec: Mapping[str, Any], scorer: str, planned: list[str]) -> str:
    return identity(
        {
            "task": field(spec, "task", str, "eval"),
            "version": str(spec.get("task_version")),
            "arguments": text_digest(spec.get("task_args")),
            "scorer": scorer,
            "samples": planned or str(_mapping(spec, "dataset").get("samples")),
        }
    )


def _summary(header: Mapping[str, Any], score: Mapping[str, Any]) -> Score | None:
    """Accuracy or mean with its standard error, where both are shares."""
    metrics = _mapping(score, "metrics")
    value, stderr = (_metric(metrics, *names) for names in (("accuracy", "mean"), ("stderr",)))
    if value is None:
        return None
    return Score(value, stderr, _scored(header, score))


def _scored(header: Mapping[str, Any], score: Mapping[str, Any]) -> int | None:
    """Samples the metrics are over; None where the log does not say."""
    results = _mapping(header, "results")
    for block, name in ((score, "scored_samples"), (results, "completed_samples")):
        if block.get(name) is not None:
            return count(block, name, "results")
    return None


def _metric(metrics: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = _mapping(metrics, name).get("value")
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
    return None


# --- samples ----------------------------------------------------------------------------------------------------


def _passes(samples: Iterable[Any], scorer: str) -> Mapping[str, list[Answer]]:
    """The answers to every sample, one per epoch."""
    passes: dict[str, list[Answer]] = {}
    seen: set[tuple[str, Any]] = set()
    for sample in samples:
        if not isinstance(sample, dict):
            raise bad("samples", "a sample is not an object")
        key = str(sample.get("id")), sample.get("epoch")
        if not isinstance(key[1], int) or not isinstance(sample.get("id"), str | int):
            raise bad("samples", "a sample has no id and epoch")
        if key in seen:
            raise Inadmissible("counters_disagree", f"sample {key[0]!r} occurs twice in epoch {key[1]}")
        seen.add(key)
        passes.setdefault(key[0], []).append(_answer(sample, scorer))
    return passes


def _check_whole(header: Mapping[str, Any], passes: Mapping[str, list[Answer]]) -> None:
    """Every planned sample and epoch is in the log, or none is: a log may leave its samples out."""
    planned = _mapping(header, "results").get("total_samples")
    logged = sum(len(answers) for answers in passes.values())
    if logged and isinstance(planned, int) and logged < planned:
        raise Inadmissible("truncated", f"{logged} of {planned} samples are in the log")


def _answer(sample: Mapping[str, Any], scorer: str) -> Answer:
    """A sample without a score counts as failed: it ran into an error, or its scorer did."""
    output = _mapping(sample, "output")
    score = _mapping(sample, "scores").get(scorer)
    text = output.get("completion")
    ok = isinstance(score, dict) and not sample.get("error")
    return Answer(
        score=_grade(score, f"sample {sample.get('id')!r}") if isinstance(score, dict) and ok else 0.0,
        ok=ok,
        empty=(isinstance(score, dict) and score.get("value") == "N") or not (isinstance(text, str) and text.strip()),
        cut=any(isinstance(one, dict) and one.get("stop_reason") in _CUT for one in _choices(output)),
        text_sha256=text_digest(text) if ok and isinstance(text, str) else "",
    )


def _grade(score: Mapping[str, Any], where: str) -> float:
    value = score.get("value")
    if isinstance(value, str) and value in _GRADES:
        return _GRADES[value]
    return share(value, where)


def _choices(output: Mapping[str, Any]) -> Iterator[Any]:
    choices = output.get("choices")
    yield from choices if isinstance(choices, list) else []


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, dict) else {}
