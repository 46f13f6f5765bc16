"""Kind `cost`: what a replica costs for what it produces under the generated load, from a dated price list.

The load is a closed loop, and the figure that of a busy replica; or it has the rate of the real traffic, and the figure
has in it what the replica costs while it waits for the next request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.generated import GeneratedLoad
from pulumi_infercrane.guard.collect.load import Describe, Load, Measured, Side
from pulumi_infercrane.guard.collect.paired import Measurement, measure_both
from pulumi_infercrane.guard.collect.prices import PriceList, gpu_count, load_prices
from pulumi_infercrane.guard.collect.stream import Answer
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

KIND = "cost"


@dataclass(frozen=True, kw_only=True)
class Plan(GeneratedLoad):
    """The generated load, its price, and what a good answer is."""

    prices: Path = field()
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    """A good request is a complete one within these."""
    rate: float | None = None
    """Requests a second on each side; None keeps `concurrency` under way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None and self.rate <= 0:
            raise CollectError("rate must be positive")
        if any(limit is not None and limit <= 0 for limit in (self.slo_ttft_s, self.slo_tpot_s)):
            raise CollectError("slo_ttft_s and slo_tpot_s must be positive")

    @property
    def slo(self) -> dict[str, float]:
        limits = {"ttft_s": self.slo_ttft_s, "tpot_s": self.slo_tpot_s}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def load(self, describe: Describe, *targets: Target) -> Load:
        """The generated load, at the rate where there is one."""
        return replace(super().load(describe, *targets), rate=self.rate)

    def scenario(self) -> dict[str, Any]:
        """The workload; a rate takes the place of the concurrency."""
        closed = super().scenario()
        if self.rate is None:
            return closed
        return {name: value for name, value in closed.items() if name != "concurrency"} | {
            "load_model": "open",
            "rate": self.rate,
        }


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Measure both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: the price file is wrong or lacks a price, a replica cannot be reached at the start, time or money
            ran out, or `out` cannot be written.
    """
    prices = load_prices(plan.prices)
    for target in (candidate, baseline):
        prices.per_hour(target)
    load = plan.load(_describe(plan.slo), candidate, baseline)
    more = {"slo": plan.slo} if plan.slo else {}
    header = {"currency": prices.currency, "idle_included": plan.rate is not None}
    measurement = Measurement(KIND, load, plan.scenario(), header, lambda side: _charge(prices, side), more)
    return await measure_both(candidate, baseline, measurement, out=out, progress=progress)


def _charge(prices: PriceList, side: Side) -> dict[str, Any]:
    """A side is charged for the time the load was on it: while it waits for its turn, only the measurement idles."""
    return {
        "price_source": prices.source,
        "price_date": prices.date,
        "price_per_gpu_hour": prices.of(side.target).per_gpu_hour,
        "gpu_count": gpu_count(side.target),
        "duration_s": round(side.seconds, 6),
        "utilisation": round(min(1.0, side.busy_s / side.seconds), 4),
    }


def _describe(slo: Mapping[str, float]) -> Describe:
    def describe(measured: Measured, _: Measured | None) -> Mapping[str, Any]:
        answer = measured.answer
        line = {"id": measured.id, "outcome": answer.outcome, "good": _good(answer, slo)}
        if not answer.complete:
            return {**line, "error": answer.error}
        tokens = {"in_tokens": answer.in_tokens, "out_tokens": answer.out_tokens}
        known = {name: count for name, count in tokens.items() if count is not None}
        return {**line, **known, "token_source": answer.token_source}

    return describe


def _good(answer: Answer, slo: Mapping[str, float]) -> bool:
    """An answer too short to have a time per token has kept that limit."""
    figures = {"ttft_s": answer.ttft_s, "tpot_s": answer.tpot_s}
    return answer.complete and all((figures[name] or 0.0) <= limit for name, limit in slo.items())
