"""Files of the Go project InferCrane, for those who come from it: evaluator results and signed quality evidence (kind
quality), and AIPerf rows, alone or in a passport (kind benchmark).

None of them names an image, an accelerator or a commit, so whoever imports them vouches for the revision: the envelope
says `source: infercrane-go/<kind of file>` and `binding: declared_by_importer`. What the other guard decided is history
and never read. A signature made with the key that lies beside it proves nothing about who signed: only the digest is
checked here, trust is a matter of the envelope's own signature.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_number
from pulumi_infercrane.guard.evidence.reading.moments import check_times
from pulumi_infercrane.guard.evidence.reading.scored import (
    check_version,
    chosen,
    identity,
    require_kind,
    rule_name,
    selection,
    share,
)
from pulumi_infercrane.guard.evidence.reading.stated import Stated, from_iso
from pulumi_infercrane.guard.evidence.records import Answer, Benchmark, Latency, Quality, Record, Score
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS = ()
READS = "Evaluator results and signed quality evidence (v2), AIPerf rows, alone or in a passport."
CANNOT_KNOW = (
    "Which revision it was, who signed, when a run started, latencies other than p95; its verdicts are ignored."
)

SOURCE = "infercrane-go/"
RESULT = "infercrane.dev/evaluator-result/v2"
QUALITY = "infercrane.dev/quality-evidence/v2"
PASSPORT = "infercrane.inference-passport/v1"
DISTRIBUTION = "infercrane.dev/quality-distribution/v1"
ALGORITHM = "Ed25519-SHA256"
METRIC = "score"
MAX_BYTES = 4 * 1024 * 1024

_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_RESULT_KEYS = {
    "schema",
    "suite",
    "suite_version",
    "evaluator",
    "evaluator_version",
    "score",
    "passed",
    "sample_count",
    "artifact_digest",
    "evaluated_at",
}
_BOUND_KEYS = _RESULT_KEYS | {"deployment", "revision_id"}
_SIGNED_KEYS = {"payload", "digest", "signature", "public_key", "algorithm", "key_id"}
_ROW_KEYS = {"tool", "tool_version", "workload", "request_count", "succeeded", "failed", "created_at"}
_PASSPORT_KEYS = {"schema", "deployment", "revision_id", "benchmarks", "missing_evidence", "issued_at"}


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """One file; of several rows in a passport the one that the envelope selects with `benchmark`, by its id.

    Raises:
        Inadmissible: with the reason code and the field.
    """
    name, document = _named(parts["primary"])
    _check_import(envelope, name)
    if name in ("evaluator-result", "quality-evidence"):
        require_kind(envelope, f"infercrane-go's {name}", "quality")
        check_version(document["evaluator_version"], envelope, "evaluator_version")
        check_times(envelope, from_iso(document["evaluated_at"]))
        return _quality(document)
    require_kind(envelope, f"infercrane-go's {name}", "benchmark")
    row = _row(document, envelope) if name == "passport" else document
    check_version(row["tool_version"], envelope, "tool_version")
    check_times(envelope, from_iso(row["created_at"]))
    return _benchmark(row)


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version, the end of the measurement, and how many items or requests there were."""
    name, document = _named(parts["primary"])
    rows = field(document, "benchmarks", list, "") if name == "passport" else [document]
    if len(rows) != 1 or not isinstance(rows[0], dict):
        return Stated(source=SOURCE + name)
    row = rows[0]
    ended = from_iso(row.get("evaluated_at", row.get("created_at")))
    version = row.get("evaluator_version", row.get("tool_version"))
    planned = row.get("sample_count", row.get("request_count"))
    return Stated(str(version or ""), ended, ended, planned if isinstance(planned, int) else None, SOURCE + name)


def _check_import(envelope: Envelope, name: str) -> None:
    if envelope.source != SOURCE + name:
        raise Inadmissible("binding_conflict", f"the file is an import: source must be {SOURCE + name!r}")
    if envelope.binding != "declared_by_importer":
        raise Inadmissible(
            "binding_conflict", "the file names no revision of ours: binding must be declared_by_importer"
        )


def _named(data: bytes) -> tuple[str, Mapping[str, Any]]:
    """Which of the project's files this is, and its content."""
    document = _object(data)
    if document.keys() == _SIGNED_KEYS:
        payload = _object(_payload(document))
        if payload.get("schema") == QUALITY:
            return "quality-evidence", _exactly(payload, _BOUND_KEYS, optional={"distribution"})
        if payload.get("schema") == PASSPORT:
            return "passport", _with(payload, _PASSPORT_KEYS)
        raise Inadmissible("schema_unknown", f"a signed payload of schema {payload.get('schema')!r}")
    if document.get("schema") == RESULT:
        return "evaluator-result", _exactly(document, _RESULT_KEYS, optional={"distribution"})
    return "aiperf-row", _with(document, _ROW_KEYS)


def _object(data: bytes) -> Mapping[str, Any]:
    document = parse(data, max_bytes=MAX_BYTES)
    if not isinstance(document, dict):
        raise Inadmissible("schema_unknown", "not a file of infercrane-go: it is not an object")
    return document


def _payload(signed: Mapping[str, Any]) -> bytes:
    """The signed text as it is stored: written again, it would have another digest."""
    if signed["algorithm"] != ALGORITHM:
        raise Inadmissible("signature_invalid", f"algorithm {signed['algorithm']!r}, known is {ALGORITHM}")
    payload = field(signed, "payload", str, "").encode("utf-8", "surrogatepass")
    if signed["digest"] != "sha256:" + hashlib.sha256(payload).hexdigest():
        raise Inadmissible("tampered", "the payload does not have the digest that was signed")
    return payload


def _exactly(document: Mapping[str, Any], keys: set[str], optional: set[str]) -> Mapping[str, Any]:
    unknown = sorted(document.keys() - keys - optional)
    if unknown:
        raise Inadmissible("schema_unknown", f"{unknown[0]}: unknown field")
    return _with(document, keys)


def _with(document: Mapping[str, Any], keys: set[str]) -> Mapping[str, Any]:
    missing = sorted(keys - document.keys())
    if missing:
        raise Inadmissible("schema_unknown", f"not a file of infercrane-go: it has no {missing[0]}")
    return document


# --- evaluator results ------------------------------------------------------------------------------------------


def _quality(result: Mapping[str, Any]) -> Quality:
    """Scores are known by position only; that both sides have the same items is what the pairing digest says."""
    scores, pairing = _scores(result)
    value = share(number(result, "score", ""), "score")
    artifact = field(result, "artifact_digest", str, "")
    if not _SHA256.fullmatch(artifact):
        raise bad("", f"artifact_digest {artifact!r} is not sha256: and 64 hex digits")
    named = {name: field(result, name, str, "") for name in ("suite", "suite_version", "evaluator")}
    return Quality(
        task=rule_name(named["suite"]),
        metric=METRIC,
        tasks_digest=identity({**named, "pairing": pairing}),
        answers={f"{index:06d}": Answer(score, True, None, None, "") for index, score in enumerate(scores)},
        summary=Score(value, None, count(result, "sample_count", "")),
    )


def _scores(result: Mapping[str, Any]) -> tuple[Sequence[float], str]:
    if "distribution" not in result:
        return (), ""
    distribution = field(result, "distribution", dict, "")
    _exactly(distribution, {"schema", "kind", "pairing_digest", "scores"}, set())
    if (distribution["schema"], distribution["kind"]) != (DISTRIBUTION, "paired_scores"):
        raise Inadmissible("schema_unknown", f"distribution: not {DISTRIBUTION} of kind paired_scores")
    pairing = field(distribution, "pairing_digest", str, "distribution")
    if not _SHA256.fullmatch(pairing):
        raise bad("distribution", f"pairing_digest {pairing!r} is not sha256: and 64 hex digits")
    scores = [share(score, "distribution.scores") for score in field(distribution, "scores", list, "distribution")]
    if len(scores) != count(result, "sample_count", ""):
        raise Inadmissible("counters_disagree", f"{len(scores)} scores, sample_count is {result['sample_count']}")
    return scores, pairing


# --- AIPerf rows ------------------------------------------------------------------------------------------------


def _row(passport: Mapping[str, Any], envelope: Envelope) -> Mapping[str, Any]:
    rows = {field(_with(row, _ROW_KEYS | {"id"}), "id", str, "benchmarks"): row for row in _objects(passport)}
    if not rows:
        raise Inadmissible("no_evidence", "the passport holds no benchmark")
    return rows[chosen("benchmark", rows.keys(), selection(envelope, "benchmark"))]


def _objects(passport: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    rows = field(passport, "benchmarks", list, "")
    if not all(isinstance(row, dict) for row in rows):
        raise bad("benchmarks", "a row is not an object")
    return rows


def _benchmark(row: Mapping[str, Any]) -> Benchmark:
    attempted, failed = count(row, "request_count", ""), count(row, "failed", "")
    if count(row, "succeeded", "") + failed != attempted:
        raise Inadmissible("counters_disagree", "succeeded and failed are not together request_count")
    workload = field(row, "workload", dict, "")
    return Benchmark(
        attempted=attempted,
        failed=failed,
        errors={"unnamed": failed} if failed else {},
        load_model="closed" if "concurrency" in workload else "",
        concurrency=optional_number(workload, "concurrency", "workload"),
        streaming=field(workload, "streaming", bool, "workload") if "streaming" in workload else None,
        latencies=_latencies(row),
        out_tokens_per_s=optional_number(row, "output_token_throughput", ""),
    )


def _latencies(row: Mapping[str, Any]) -> dict[str, Latency]:
    """No request ends before its first token, so neither does the slowest twentieth."""
    keys = {"ttft_s": "ttft_p95_ms", "e2e_s": "latency_p95_ms"}
    seconds = {figure: _seconds(row, key) for figure, key in keys.items() if key in row}
    if len(seconds) == len(keys) and seconds["ttft_s"] > seconds["e2e_s"]:
        raise Inadmissible("unit_suspect", "ttft_p95_ms is above latency_p95_ms")
    return {figure: Latency({0.95: value}) for figure, value in seconds.items()}


def _seconds(row: Mapping[str, Any], name: str) -> float:
    milliseconds = number(row, name, "")
    if not 0 < milliseconds <= 600_000:
        raise bad("", f"{name} {milliseconds:g} is no latency")
    return milliseconds / 1e3
