"""What load tools say in sum, beyond what `checks` holds against each other."""

import math
from array import array
from collections.abc import Mapping

from pulumi_infercrane.guard.evidence.reading.checks import SUM_SHARE
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Reliability
from pulumi_infercrane.guard.reasons import Inadmissible

ROUNDED_SHARE = 0.01
"""By which figures may differ that a tool rounds."""


def share_of(percent: float) -> float:
    """0.999 of 99.9, without what binary fractions add."""
    return round(percent / 100, 9)


def check_parts(latencies: Mapping[str, Latency]) -> None:
    """No part takes longer than the whole, on the average and in every quantile.

    Raises:
        Inadmissible: `unit_suspect`, because only mixed units explain the figures.
    """
    whole = latencies.get("e2e_s", Latency())
    for figure in ("ttft_s", "tpot_s"):
        part = latencies.get(figure, Latency())
        pairs = [(part.quantiles[q], whole.quantiles[q]) for q in part.quantiles if q in whole.quantiles]
        if part.mean is not None and whole.mean is not None:
            pairs.append((part.mean, whole.mean))
        if any(a > b * (1 + ROUNDED_SHARE) > 0 for a, b in pairs):
            raise Inadmissible("unit_suspect", f"{figure} is larger than e2e_s: milliseconds beside seconds?")


def token_time_doubt(latencies: Mapping[str, Latency], out_tokens: float | None) -> str:
    """Why the time per output token cannot be one: ttft + tpot · (tokens - 1) is not about e2e. Else empty."""
    means = [latencies.get(figure, Latency()).mean for figure in ("ttft_s", "tpot_s", "e2e_s")]
    if out_tokens is None or out_tokens < 1 or None in means:
        return ""
    ttft, tpot, e2e = (value for value in means if value is not None)
    total = ttft + tpot * (out_tokens - 1)
    if math.isclose(total, e2e, rel_tol=SUM_SHARE):
        return ""
    return f"first token and {out_tokens:.4g} tokens at {tpot:.4g} s make {total:.4g} s, the whole took {e2e:.4g} s"


def without_token_times(latencies: Mapping[str, Latency]) -> dict[str, Latency]:
    """What is left when the times between tokens cannot be right."""
    return {figure: one for figure, one in latencies.items() if figure not in ("tpot_s", "itl_s")}


def reliability_of(run: Benchmark) -> Reliability:
    """The failures of a load run, over its duration; nothing of drills, crashes or restarts."""
    in_sum = (time for latency in run.latencies.values() for time in latency.times_s)
    times = run.requests.e2e_s if run.requests else array("d", in_sum)
    return Reliability(run.attempted, run.failed, run.duration_s, errors=run.errors, times_s=times)
