"""Whether the figures of a load run can be true together. What cannot be is refused by name.

Every check is about figures that one file states twice in different words; a figure the file lacks is not checked.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from pulumi_infercrane.guard.evidence.reading.rows import MAX_LATENCY_S
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Requests
from pulumi_infercrane.guard.reasons import Inadmissible

SUM_SHARE = 0.10
"""Means of parts against the mean of the whole."""
PACE_SHARE, PACE_REQUESTS = 0.01, 2
LOOP_SHARE = 0.20
LOOP_ROUNDS = 10
"""Requests per place of a closed loop from which on its start and end no longer matter."""
TOKEN_SHARE = 0.05
SCHEDULE_S, SCHEDULE_SHARE = 0.05, 0.10
SAME_FIGURE = 0.01


def checked(record: Benchmark, *, rps: float | None = None, window_s: float | None = None) -> Benchmark:
    """The record, when nothing in it contradicts the rest. The few requests with an impossible latency count as failed.

    `rps` are successful requests per second as the tool wrote it, over its own window of `window_s` seconds.

    Raises:
        Inadmissible: `bad_value`, `unit_suspect`, `counters_disagree` or `inconsistent`.
    """
    _check_counts(record)
    for figure, latency in record.latencies.items():
        check_latency(figure, latency)
        _check_fits(record, figure, latency)
    _check_parts(record)
    if rps is not None and window_s is not None:
        _check_pace(record, rps * window_s)
    if rps is not None:
        _check_loop(record, rps)
    if record.requests is None:
        return record
    check_sums(record.requests)
    _check_requests(record, record.requests)
    return record if record.failed is None else replace(record, failed=record.requests.failed)


def succeeded(record: Benchmark) -> int | None:
    """None when the file does not say."""
    if record.attempted is None or record.failed is None:
        return None
    return record.attempted - record.failed - record.incomplete


def check_latency(figure: str, latency: Latency) -> None:
    """Quantiles that are possible, and grow with their share.

    Raises:
        Inadmissible: `bad_value` or `inconsistent`.
    """
    ordered = [latency.quantiles[share] for share in sorted(latency.quantiles)]
    for value in [*ordered, *([] if latency.mean is None else [latency.mean])]:
        if value < 0 or (value == 0 and figure != "itl_s") or (value > MAX_LATENCY_S and not math.isinf(value)):
            raise Inadmissible("bad_value", f"{figure} of {value:g} s is outside 0 to {MAX_LATENCY_S:.0f} s")
    if any(above < below * (1 - 1e-9) for below, above in pairwise(ordered)):
        raise Inadmissible("inconsistent", f"{figure}: a higher percentile is below a lower one")


def check_total(figure: str, mean: float, count: float, total: float) -> None:
    """mean × count must be the sum the tool wrote beside them.

    Raises:
        Inadmissible: `inconsistent`.
    """
    if abs(mean * count - total) > 1e-3 * max(abs(total), 1e-9):
        raise Inadmissible("inconsistent", f"{figure}: mean {mean:g} of {count:g} does not give the sum {total:g}")


def check_sums(requests: Requests) -> None:
    """ttft + tpot · (tokens - 1) must be about e2e, on the average of the requests that have all four.

    Raises:
        Inadmissible: `inconsistent`.
    """
    rows = zip(requests.ttft_s, requests.tpot_s, requests.e2e_s, requests.out_tokens, strict=True)
    gap, whole = 0.0, 0.0
    for ttft, tpot, e2e, tokens in rows:
        if ttft == ttft and tpot == tpot and tokens >= 1:
            gap += ttft + tpot * (tokens - 1) - e2e
            whole += e2e
    if abs(gap) > SUM_SHARE * whole:
        raise Inadmissible("inconsistent", "ttft_s + tpot_s · (out_tokens - 1) differs from e2e_s by more than 10 %")


def token_doubt(client: float | None, server: float | None, who: str) -> str:
    """Why token figures may not be judged: two counts of the same tokens differ by more than 5 %; empty when not."""
    if not client or not server or abs(client - server) <= TOKEN_SHARE * max(client, server):
        return ""
    return f"{who}: {client:g} against {server:g} output tokens"


def schedule_delay(p99_s: float | None, ttft_p50_s: float | None) -> str:
    """Why the client set the pace: its requests left later than they should have; empty when not."""
    most = max(SCHEDULE_S, SCHEDULE_SHARE * (ttft_p50_s or 0.0))
    if p99_s is None or p99_s <= most:
        return ""
    return f"requests left up to {p99_s:.3g} s late (p99), at most {most:.3g} s are tolerated"


def _check_counts(record: Benchmark) -> None:
    good = succeeded(record)
    if good is not None and (good < 0 or (record.failed or 0) < 0):
        detail = f"{record.failed} failed and {record.incomplete} incomplete of {record.attempted} requests"
        raise Inadmissible("counters_disagree", detail)
    if record.good is not None and good is not None and record.good > good:
        raise Inadmissible("counters_disagree", f"{record.good} good requests of {good} successful ones")
    for name in ("rate", "concurrency", "duration_s"):
        value = getattr(record, name)
        if value is not None and value <= 0:
            raise Inadmissible("bad_value", f"{name} is {value:g}")


def _check_fits(record: Benchmark, figure: str, latency: Latency) -> None:
    """No request lasts longer than the run: twice as long is another unit."""
    slowest = max((value for value in latency.quantiles.values() if math.isfinite(value)), default=latency.mean)
    if record.duration_s is not None and slowest is not None and slowest > 2 * record.duration_s:
        detail = f"{figure} of {slowest:g} s in a run of {record.duration_s:g} s: milliseconds against seconds?"
        raise Inadmissible("unit_suspect", detail)


def _check_parts(record: Benchmark) -> None:
    ttft, tpot, e2e = (_mean(record, figure) for figure in ("ttft_s", "tpot_s", "e2e_s"))
    if ttft is None or tpot is None or e2e is None or not record.out_tokens or record.token_doubt:
        return
    parts = ttft + tpot * (record.out_tokens - 1)
    if abs(parts - e2e) > SUM_SHARE * e2e:
        detail = f"ttft_s + tpot_s · (out_tokens - 1) is {parts:.4g} s on average, e2e_s {e2e:.4g} s"
        raise Inadmissible("inconsistent", detail)


def _check_pace(record: Benchmark, expected: float) -> None:
    good = succeeded(record)
    if good is not None and abs(expected - good) > max(PACE_SHARE * good, PACE_REQUESTS):
        detail = f"requests per second times duration is {expected:.4g}, {good} requests succeeded"
        raise Inadmissible("inconsistent", detail)


def _check_loop(record: Benchmark, rps: float) -> None:
    """Little's law for a closed loop. Failures keep a place busy for no counted time: then nothing is said."""
    e2e, good, places = _mean(record, "e2e_s"), succeeded(record), record.concurrency
    if record.load_model != "closed" or e2e is None or not places or record.failed or record.incomplete:
        return
    if good is None or good < LOOP_ROUNDS * places or abs(rps * e2e - places) <= LOOP_SHARE * places:
        return
    detail = f"{rps:.4g} requests per second of {e2e:.4g} s keep {rps * e2e:.4g} in flight, not {places:g}"
    raise Inadmissible("inconsistent", detail)


def _check_requests(record: Benchmark, requests: Requests) -> None:
    """Counts and quantiles of the summary must be those of the requests."""
    if record.attempted is not None and len(requests) + record.incomplete != record.attempted:
        detail = f"{len(requests)} requests are kept, the summary counts {record.attempted}"
        raise Inadmissible("counters_disagree", detail)
    failed = requests.failed - record.errors.get("bad_value", 0)
    if record.failed is not None and failed != record.failed:
        detail = f"{failed} failed requests are kept, the summary counts {record.failed}"
        raise Inadmissible("counters_disagree", detail)
    for figure in ("ttft_s", "e2e_s"):
        values = sorted(value for value in requests.seconds(figure) if math.isfinite(value))
        latency = record.latencies.get(figure)
        if values and latency is not None and not _describes(latency, values):
            raise Inadmissible("inconsistent", f"{figure} of the summary is not that of the requests")


def _describes(latency: Latency, ordered: Sequence[float]) -> bool:
    """Whatever way of interpolating a tool has, a quantile lies among its neighbours."""
    last = len(ordered) - 1
    for share, value in latency.quantiles.items():
        low = ordered[max(0, math.floor(last * share) - 1)] * (1 - SAME_FIGURE)
        high = ordered[min(last, math.ceil((last + 1) * share) + 1)] * (1 + SAME_FIGURE)
        if not low <= value <= high:
            return False
    mean = math.fsum(ordered) / len(ordered)
    return latency.mean is None or abs(latency.mean - mean) <= SAME_FIGURE * mean


def _mean(record: Benchmark, figure: str) -> float | None:
    return record.latencies[figure].mean if figure in record.latencies else None
