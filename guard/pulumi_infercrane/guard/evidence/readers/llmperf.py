"""llmperf of ray-project: the summary JSON; the list of single requests as part `samples`.

The PyPI package of the same name is another project. Latencies are in seconds.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, parse_object
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_number
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_workload
from pulumi_infercrane.guard.evidence.reading.load_runs import check_parts, share_of
from pulumi_infercrane.guard.evidence.reading.moments import check_window, from_epoch
from pulumi_infercrane.guard.evidence.reading.rows import Rows, tpot
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = "`*_summary.json` of format 2023-08-31, with `*_individual_responses.json` as part `samples`."
CANNOT_KNOW = (
    "How long it ran; the time per output token without `samples` (its inter-token latency is the whole divided by "
    "the tokens); whether an answer that was too short for it was the server's fault: it counts as failed."
)

FORMAT = "2023-08-31"
COUNTED_BY = "client"
MOST_IN_FLIGHT = 2.0
"""Requests in flight (rate times latency) per concurrent client: more, and the seconds are no seconds."""

_FIGURES = {"ttft_s": "results_ttft_s", "e2e_s": "results_end_to_end_latency_s"}
_QUANTILE = re.compile(r"_quantiles_p(\d{1,2})")
_FREQUENCIES = re.compile(r"\{(?:-?\d+(?:\.0)?: \d+(?:, )?)*\}")
_FREQUENCY = re.compile(r"(-?\d+)(?:\.0)?: (\d+)")


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The record of one run.

    Raises:
        Inadmissible: `version_unknown` for another format, `counters_disagree` when the parts do not fit together.
    """
    check_kind(envelope, "benchmark")
    document = parse_object(parts["primary"], envelope, ("version", "results_num_requests_started"))
    if document.get("version") != FORMAT:
        raise Inadmissible("version_unknown", f"format {str(document.get('version'))[:20]!r}: known is {FORMAT}")
    if "timestamp" in document:
        written = from_epoch(number(document, "timestamp", ""), "timestamp")
        check_window(envelope, written, written)
    check_model(document.get("model"), envelope)
    run = _run(document)
    if "samples" in parts:
        run = _with_samples(run, parse(parts["samples"]))
    return check_workload(checked(run), envelope)


def _run(document: Mapping[str, Any]) -> Benchmark:
    attempted, failed = (count(document, f"results_{name}", "") for name in ("num_requests_started", "number_errors"))
    if failed > attempted:
        raise Inadmissible("counters_disagree", f"{failed} errors of {attempted} requests")
    errors = _errors(document)
    if sum(errors.values()) != failed:
        raise Inadmissible("counters_disagree", f"{failed} errors, but {sum(errors.values())} by code")
    latencies = {name: _latency(document, name) for name in _FIGURES} if failed < attempted else {}
    check_parts(latencies)
    concurrency = number(document, "num_concurrent_requests", "")
    _check_in_flight(document, latencies, concurrency)
    return Benchmark(
        attempted=attempted,
        failed=failed,
        errors=errors,
        load_model="closed",
        concurrency=concurrency,
        streaming=True,
        token_source=COUNTED_BY,
        latencies=latencies,
        in_tokens=optional_number(document, "results_number_input_tokens_mean", ""),
        out_tokens=optional_number(document, "results_number_output_tokens_mean", ""),
        out_tokens_per_s=optional_number(document, "results_mean_output_throughput_token_per_s", ""),
    )


def _errors(document: Mapping[str, Any]) -> dict[str, int]:
    """Failures by code, out of what Python prints of a dictionary. It is matched, never evaluated."""
    text = field(document, "results_error_code_frequency", str, "")
    if len(text) > 10_000 or not _FREQUENCIES.fullmatch(text):
        raise bad("", f"results_error_code_frequency {text[:40]!r} is not a table of codes")
    errors: Counter[str] = Counter()
    for code, number_of in _FREQUENCY.findall(text):
        errors[code] += int(number_of)
    return dict(errors)


def _latency(document: Mapping[str, Any], figure: str) -> Latency:
    prefix = _FIGURES[figure]
    names = {key: _QUANTILE.fullmatch(key.removeprefix(prefix)) for key in document if key.startswith(prefix)}
    quantiles = {share_of(int(match[1])): number(document, key, "") for key, match in names.items() if match}
    return Latency(quantiles, number(document, f"{prefix}_mean", ""))


def _check_in_flight(document: Mapping[str, Any], latencies: Mapping[str, Latency], concurrency: float) -> None:
    per_minute = optional_number(document, "results_num_completed_requests_per_min", "")
    e2e = latencies.get("e2e_s", Latency()).mean
    if per_minute is None or e2e is None or per_minute / 60 * e2e <= MOST_IN_FLIGHT * concurrency:
        return
    text = f"{per_minute / 60:.3g} requests per second of {e2e:.4g} s each do not fit {concurrency:g} clients"
    raise Inadmissible("unit_suspect", text)


def _with_samples(run: Benchmark, document: Any) -> Benchmark:
    if not isinstance(document, list):
        raise Inadmissible("schema_unknown", "samples: not a list of requests")
    rows = Rows()
    for index, row in enumerate(document):
        if not isinstance(row, dict):
            raise bad(f"samples[{index}]", "is not an object")
        _append(rows, row, f"samples[{index}]")
    requests = rows.requests()
    if (len(requests), requests.failed - rows.errors["bad_value"]) != (run.attempted, run.failed):
        text = f"{run.failed} of {run.attempted} failed in the summary, {requests.failed} of {len(requests)} in samples"
        raise Inadmissible("counters_disagree", text)
    return replace(run, requests=requests, failed=requests.failed, errors=dict(+rows.errors))


def _append(rows: Rows, row: Mapping[str, Any], where: str) -> None:
    """In a failed row the inter-token latency is a sum and the tokens are those that came: nothing of it is used."""
    code = row.get("error_code")
    if code is not None:
        return rows.fail(str(code)[:40])
    into, out = (number(row, f"number_{side}_tokens", where) for side in ("input", "output"))
    if min(into, out) < 0:
        raise bad(where, "a number of tokens is negative")
    ttft, e2e = number(row, "ttft_s", where), number(row, "end_to_end_latency_s", where)
    return rows.add((ttft, tpot(ttft, e2e, out), e2e, into, out))
