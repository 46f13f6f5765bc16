"""OpenCost `/allocation`: what one allocation cost from `start` to `end`.

The file holds no currency and no tokens: the envelope's `price` states the one, the part `details` adds the others
(a Prometheus counter, LiteLLM's log, or our own cost file, over the same time).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, named
from pulumi_infercrane.guard.evidence.reading.fields import bad, field, number, optional_number
from pulumi_infercrane.guard.evidence.reading.load_runs import ROUNDED_SHARE
from pulumi_infercrane.guard.evidence.reading.moments import check_window, from_text
from pulumi_infercrane.guard.evidence.reading.prices import stated_price, with_tokens
from pulumi_infercrane.guard.evidence.records import Cost, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = (
    "The answer of `/allocation`, one allocation of one window, with tokens from any cost evidence as part `details`."
)
CANNOT_KNOW = (
    "The currency and the age of the prices (the envelope's `price` states them); tokens and requests; idle cost, "
    "unless it was asked for and selected."
)

_GPU = ("gpuCost", "gpuCostAdjustment")
_OTHER = (
    *("cpuCost", "cpuCostAdjustment", "ramCost", "ramCostAdjustment", "pvCost", "pvCostAdjustment"),
    *("networkCost", "networkCostAdjustment", "loadBalancerCost", "loadBalancerCostAdjustment"),
    *("sharedCost", "externalCost"),
)
_ROUNDING = 1e-4
"""OpenCost writes five decimals."""


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The cost of the allocation that `select.name` names, in the window that `select.index` counts from 0.

    Raises:
        Inadmissible: `ambiguous_run`; `cost_incomplete` without a price date and currency, or without a GPU's cost.
    """
    check_kind(envelope, "cost")
    windows = _windows(parse(parts["primary"]))
    window = named({str(index): one for index, one in enumerate(windows)}, envelope, "index", "windows")
    cost = _cost(named(window, envelope, "name", "allocations"), envelope)
    return with_tokens(cost, parts, envelope)


def _windows(document: Any) -> list[dict[str, dict[str, Any]]]:
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise Inadmissible("schema_unknown", "no list of data: not an answer of /allocation")
    if document.get("code") != 200:
        raise Inadmissible("no_evidence", f"OpenCost answered with code {str(document.get('code'))[:20]}")
    for window in document["data"]:
        if not isinstance(window, dict) or any(not isinstance(one, dict) for one in window.values()):
            raise Inadmissible("schema_unknown", "data: not objects of allocations by name")
    return list(document["data"])


def _cost(allocation: Mapping[str, Any], envelope: Envelope) -> Cost:
    """Cost covers `start` to `end`, which may be less than the window that was asked for."""
    where = field(allocation, "name", str, "allocation")[:80]
    started, ended = (_time(allocation, name, where) for name in ("start", "end"))
    check_window(envelope, started, ended)
    duration_s = (ended - started).total_seconds()
    if duration_s <= 0:
        raise bad(where, "start is not before end")
    gpu, other = _sum(allocation, _GPU, where), _sum(allocation, _OTHER, where)
    total = number(allocation, "totalCost", where)
    if abs(gpu + other - total) > max(_ROUNDING, ROUNDED_SHARE * abs(total)):
        raise Inadmissible("inconsistent", f"{where}: the parts cost {gpu + other:.5g}, the total is {total:.5g}")
    if gpu <= 0 and envelope.subject.accelerator.vendor != "cpu":
        raise Inadmissible("cost_incomplete", f"{where}: gpuCost is {gpu:g} for a service on an accelerator")
    price = stated_price(envelope)
    return Cost(
        currency=price.currency,
        duration_s=duration_s,
        gpu_cost=gpu,
        other_cost=other,
        price_source=price.source,
        price_date=price.date,
    )


def _time(allocation: Mapping[str, Any], name: str, where: str) -> datetime:
    return from_text(field(allocation, name, str, where), f"{where}.{name}")


def _sum(allocation: Mapping[str, Any], names: tuple[str, ...], where: str) -> float:
    amounts = [optional_number(allocation, name, where) or 0.0 for name in names]
    for name, amount in zip(names, amounts, strict=True):
        if amount < 0 and not name.endswith("Adjustment"):
            raise bad(where, f"{name} is negative")
    return sum(amounts)
