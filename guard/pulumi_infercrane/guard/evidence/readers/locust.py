"""locust: the entries of `--json`; the CSV of statistics as part `details`, to be cross-checked only.

Response times are in milliseconds, rounded to two digits above 100, and a failed request's time is one of them.
"""

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, named
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number
from pulumi_infercrane.guard.evidence.reading.load_runs import reliability_of
from pulumi_infercrane.guard.evidence.reading.moments import check_window, from_epoch
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = "The output of `--json`, one endpoint of it, with `*_stats.csv` as part `details` to compare its counts with."
CANNOT_KNOW = (
    "Tokens and the first token; why requests failed; the load model; latency as soon as one request failed, because "
    "the time of a failure is mixed with those of answers."
)

MAX_CSV_BYTES = 1024 * 1024

_SHARES = (0.5, 0.9, 0.95, 0.99)


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The record of one endpoint, named by `select.name` (`POST /v1/chat/completions`) when there are several.

    Raises:
        Inadmissible: `ambiguous_run`; `counters_disagree` within the file or with its details.
    """
    check_kind(envelope, "benchmark", "reliability")
    document = parse(parts["primary"])
    if not isinstance(document, list) or not all(isinstance(one, dict) and "num_requests" in one for one in document):
        raise Inadmissible("schema_unknown", "not a list of entries with num_requests: not the output of --json")
    entry = named({_name(one): one for one in document}, envelope, "name", "endpoints")
    run = _run(entry, envelope)
    if "details" in parts:
        _check_details(parts["details"], _name(entry), run)
    return reliability_of(run) if envelope.kind == "reliability" else run


def _name(entry: Mapping[str, Any]) -> str:
    return f"{entry.get('method') or ''} {field(entry, 'name', str, 'entry')}".strip()


def _run(entry: Mapping[str, Any], envelope: Envelope) -> Benchmark:
    name = _name(entry)
    attempted, failed = count(entry, "num_requests", name), count(entry, "num_failures", name)
    if not attempted:
        raise Inadmissible("no_evidence", f"{name}: not one request")
    started, ended = number(entry, "start_time", name), number(entry, "last_request_timestamp", name)
    check_window(envelope, from_epoch(started, name), from_epoch(ended, name))
    latencies = {} if failed else {"e2e_s": _latency(entry, attempted, name)}
    _check_counts(entry, attempted, failed, name)
    run = Benchmark(
        attempted=attempted,
        failed=failed,
        errors={"unnamed": failed} if failed else {},
        duration_s=ended - started,
        latencies=latencies,
    )
    return checked(run)


def _check_counts(entry: Mapping[str, Any], attempted: int, failed: int, name: str) -> None:
    if failed > attempted:
        raise Inadmissible("counters_disagree", f"{name}: {failed} failures of {attempted} requests")
    for key, expected in (("num_reqs_per_sec", attempted), ("num_fail_per_sec", failed)):
        if key in entry and sum(_counts(entry, key).values()) != expected:
            raise Inadmissible("counters_disagree", f"{name}: {key} does not add up to {expected}")


def _counts(entry: Mapping[str, Any], key: str) -> dict[int, int]:
    """A table whose keys are whole numbers as text."""
    table = field(entry, key, dict, "entry")
    if not all(text.isascii() and text.isdigit() and len(text) < 12 for text in table):
        raise bad(key, "a key is not a whole number")
    return {int(text): count(table, text, key) for text in table}


def _latency(entry: Mapping[str, Any], attempted: int, name: str) -> Latency:
    table = sorted(_counts(entry, "response_times").items())
    timed = sum(n for _, n in table)
    if timed + count(entry, "num_none_requests", name) != attempted:
        raise Inadmissible("counters_disagree", f"{name}: response_times does not add up to {attempted}")
    if not timed:
        return Latency()
    quantiles = {share: _quantile(table, math.ceil(share * timed)) / 1000 for share in _SHARES}
    return Latency(quantiles, number(entry, "total_response_time", name) / timed / 1000)


def _quantile(table: list[tuple[int, int]], rank: int) -> int:
    below = 0
    for milliseconds, n in table:
        below += n
        if below >= rank:
            return milliseconds
    return table[-1][0]


def _check_details(data: bytes, name: str, run: Benchmark) -> None:
    """The CSV is written every few seconds and lags behind; a figure that two files disagree on is none."""
    for row in _rows(data):
        if f"{row.get('Type') or ''} {row.get('Name') or ''}".strip() == name:
            written = (row.get("Request Count"), row.get("Failure Count"))
            if written == (str(run.attempted), str(run.failed)):
                return
            text = (
                f"{run.failed} of {run.attempted} failed, {str(written[1])[:12]} of {str(written[0])[:12]} in the CSV"
            )
            raise Inadmissible("counters_disagree", f"{name}: {text}")
    raise Inadmissible("counters_disagree", f"details: no row for {name}")


def _rows(data: bytes) -> list[dict[str, str]]:
    if len(data) > MAX_CSV_BYTES:
        raise Inadmissible("oversize", f"details: {len(data)} bytes, at most {MAX_CSV_BYTES} are read")
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except UnicodeDecodeError as error:
        raise Inadmissible("not_json", f"details: not UTF-8 at byte {error.start}") from error
    except csv.Error as error:
        raise Inadmissible("not_json", f"details: not CSV: {error}") from error
    if not rows or not {"Type", "Name", "Request Count", "Failure Count"} <= rows[0].keys():
        raise Inadmissible("schema_unknown", "details: not a CSV of locust's statistics")
    return rows
