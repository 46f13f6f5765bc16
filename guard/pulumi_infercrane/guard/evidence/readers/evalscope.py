"""evalscope perf: `benchmark_summary.json`, and `benchmark_percentile.json` as part `details`.

The unit is part of every key: the layout up to 2025 has seconds everywhere, the present one has milliseconds for
parts of a request beside seconds for the whole. A layout is chosen by its keys, never by the size of a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, number, optional_number
from pulumi_infercrane.guard.evidence.reading.hints import check_workload
from pulumi_infercrane.guard.evidence.reading.load_runs import check_parts
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = "`benchmark_summary.json` of both layouts, with `benchmark_percentile.json` as part `details`."
CANNOT_KNOW = (
    "When it ran and which model answered; single requests (its database holds pickled bytes and is never opened); "
    "why a request failed; quantiles without `details`, or where the tool wrote NaN into them."
)

_MS, _S = 1000, 1


@dataclass(frozen=True)
class _Layout:
    """Keys of one generation. `means` and `quantiles` are pairs of key and units per second, by figure."""

    duration: str
    concurrency: str
    rate: str
    rps: str
    total: str
    succeeded: str
    failed: str
    in_tokens: str
    out_tokens: str
    out_tokens_per_s: str
    means: Mapping[str, tuple[str, int]]
    quantiles: Mapping[str, tuple[str, int]]


_SECONDS = _Layout(
    duration="Time taken for tests (s)",
    concurrency="Number of concurrency",
    rate="Request rate (req/s)",
    rps="Request throughput (req/s)",
    total="Total requests",
    succeeded="Succeed requests",
    failed="Failed requests",
    in_tokens="Average input tokens per request",
    out_tokens="Average output tokens per request",
    out_tokens_per_s="Output token throughput (tok/s)",
    means={
        "ttft_s": ("Average time to first token (s)", _S),
        "tpot_s": ("Average time per output token (s)", _S),
        "itl_s": ("Average inter-token latency (s)", _S),
        "e2e_s": ("Average latency (s)", _S),
    },
    quantiles={
        "ttft_s": ("TTFT (s)", _S),
        "tpot_s": ("TPOT (s)", _S),
        "itl_s": ("ITL (s)", _S),
        "e2e_s": ("Latency (s)", _S),
    },
)
_MILLISECONDS = _Layout(
    duration="Test Duration (s)",
    concurrency="Concurrency",
    rate="Request Rate (req/s)",
    rps="Req Throughput (req/s)",
    total="Total Requests",
    succeeded="Success Requests",
    failed="Failed Requests",
    in_tokens="Avg Input Tokens",
    out_tokens="Avg Output Tokens",
    out_tokens_per_s="Output Throughput (tok/s)",
    means={
        "ttft_s": ("Avg TTFT (ms)", _MS),
        "tpot_s": ("Avg TPOT (ms)", _MS),
        "itl_s": ("Avg ITL (ms)", _MS),
        "e2e_s": ("Avg Latency (s)", _S),
    },
    quantiles={
        "ttft_s": ("TTFT (ms)", _MS),
        "tpot_s": ("TPOT (ms)", _MS),
        "itl_s": ("ITL (ms)", _MS),
        "e2e_s": ("Latency (s)", _S),
    },
)


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The record of one run.

    Raises:
        Inadmissible: `schema_unknown` for keys of neither layout, or of a third one whose time per token is another.
    """
    check_kind(envelope, "benchmark")
    document = parse(parts["primary"])
    layout = _layout(document)
    return check_workload(_run(document, layout, _quantiles(parts.get("details"), layout)), envelope)


def _layout(document: Any) -> _Layout:
    known = [one for one in (_SECONDS, _MILLISECONDS) if isinstance(document, dict) and one.total in document]
    if len(known) != 1:
        raise Inadmissible("schema_unknown", "neither 'Total requests' nor 'Total Requests': not evalscope perf")
    layout = known[0]
    if "Average package latency (s)" in document or layout.means["e2e_s"][0] not in document:
        raise Inadmissible("schema_unknown", "keys of a layout whose time per output token has another meaning")
    return layout


def _run(document: Mapping[str, Any], layout: _Layout, quantiles: Mapping[str, Mapping[float, float]]) -> Benchmark:
    total, succeeded, failed = (count(document, key, "") for key in (layout.total, layout.succeeded, layout.failed))
    if succeeded + failed != total:
        raise Inadmissible("counters_disagree", f"{total} requests, but {succeeded} successes and {failed} failures")
    streaming = _streaming(document, succeeded)
    latencies = _latencies(document, layout, quantiles, streaming) if succeeded else {}
    duration_s = number(document, layout.duration, "")
    check_parts(latencies)
    out_tokens = optional_number(document, layout.out_tokens, "") if succeeded else None
    rate = optional_number(document, layout.rate, "")
    open_loop = rate is not None and rate > 0
    run = Benchmark(
        attempted=total,
        failed=failed,
        errors={"unnamed": failed} if failed else {},
        load_model="open" if open_loop else "closed",
        concurrency=None if open_loop else number(document, layout.concurrency, ""),
        rate=rate if open_loop else None,
        streaming=streaming,
        duration_s=duration_s,
        latencies=latencies,
        in_tokens=optional_number(document, layout.in_tokens, "") if succeeded else None,
        out_tokens=out_tokens,
        out_tokens_per_s=optional_number(document, layout.out_tokens_per_s, "") if succeeded else None,
    )
    return checked(run, rps=optional_number(document, layout.rps, "") if succeeded else None, window_s=duration_s)


def _streaming(document: Mapping[str, Any], succeeded: int) -> bool | None:
    """None when the file does not say, or when only some requests were streamed."""
    if "Stream Requests" not in document:
        return None
    streamed = count(document, "Stream Requests", "")
    return True if streamed >= succeeded else (None if streamed else False)


def _latencies(
    document: Mapping[str, Any],
    layout: _Layout,
    quantiles: Mapping[str, Mapping[float, float]],
    streaming: bool | None,
) -> dict[str, Latency]:
    """Without streaming the first token arrives with the last, and the tool writes 0 for the rest."""
    figures = ("e2e_s",) if streaming is False else tuple(layout.means)
    found = {}
    for figure in figures:
        key, unit = layout.means[figure]
        mean = optional_number(document, key, "")
        if mean is not None:
            found[figure] = Latency(quantiles.get(figure, {}), mean / unit)
    return found


def _quantiles(data: bytes | None, layout: _Layout) -> dict[str, dict[float, float]]:
    """Seconds by figure and share."""
    if data is None:
        return {}
    rows = parse(data)
    if not isinstance(rows, list) or not rows or any(not isinstance(row, dict) for row in rows):
        raise Inadmissible("schema_unknown", "details: not a list of percentile rows")
    if layout.quantiles["e2e_s"][0] not in rows[0] or layout.quantiles["ttft_s"][0] not in rows[0]:
        raise Inadmissible("unit_suspect", "details: its keys are in other units than those of the summary")
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        share = _share(row.get("Percentiles"))
        for figure, (key, unit) in layout.quantiles.items():
            if key in row:
                found.setdefault(figure, {})[share] = number(row, key, "details") / unit
    return found


def _share(label: Any) -> float:
    digits = label.removesuffix("%") if isinstance(label, str) else ""
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 100:
        raise bad("details", f"{str(label)[:20]!r} is no percentile")
    return int(digits) / 100
