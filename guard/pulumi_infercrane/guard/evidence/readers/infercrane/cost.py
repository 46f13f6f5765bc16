"""`infercrane.cost/v1`: one line per request of a priced window; prices and accelerators stand in the header."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.readers.infercrane import duration_s
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_count
from pulumi_infercrane.guard.evidence.records import Cost
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.times import parse_date

SECONDS_PER_HOUR = 3600.0

_CURRENCY = re.compile(r"[A-Z]{3}")


def read(header: Mapping[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> Cost:
    """What the window of one file cost, and what it produced. Only complete requests produced something.

    Raises:
        Inadmissible: with the line.
    """
    duration = duration_s(header)
    gpu_hours = count(header, "gpu_count", "line 1") * duration / SECONDS_PER_HOUR
    requests = [_request(line, f"line {line_number}") for line_number, line in lines]
    return Cost(
        currency=_currency(header),
        duration_s=duration,
        gpu_cost=_money(header, "price_per_gpu_hour") * gpu_hours,
        other_cost=_money(header, "other_cost") if "other_cost" in header else 0.0,
        price_source=field(header, "price_source", str, "line 1"),
        price_date=_price_date(header),
        idle_included=field(header, "idle_included", bool, "line 1") if "idle_included" in header else None,
        output_tokens=_total(out for _, out, _ in requests),
        input_tokens=_total(into for into, _, _ in requests),
        requests=len(requests),
        good_requests=_total(good for _, _, good in requests),
    )


def _request(line: Mapping[str, Any], where: str) -> tuple[int | None, int | None, int | None]:
    """Tokens in and out and whether it was good, 0 for a request that failed."""
    if field(line, "outcome", str, where) != "complete":
        return 0, 0, 0
    good = int(field(line, "good", bool, where)) if "good" in line else None
    return optional_count(line, "in_tokens", where), optional_count(line, "out_tokens", where), good


def _total(counts: Iterable[int | None]) -> int | None:
    """None as soon as one complete request does not say."""
    known = list(counts)
    return None if None in known else sum(one or 0 for one in known)


def _money(header: Mapping[str, Any], name: str) -> float:
    amount = number(header, name, "line 1")
    if amount < 0:
        raise bad("line 1", f"{name} is negative")
    return amount


def _currency(header: Mapping[str, Any]) -> str:
    currency = field(header, "currency", str, "line 1")
    if not _CURRENCY.fullmatch(currency):
        raise bad("line 1", f"currency {currency!r} is not a code like USD")
    return currency


def _price_date(header: Mapping[str, Any]) -> str:
    date = field(header, "price_date", str, "line 1")
    try:
        later = parse_date(date) > parse_date(field(header, "ended_at", str, "line 1")[:10])
    except ValueError as error:
        raise bad("line 1", f"price_date: {error}") from error
    if later:
        raise Inadmissible("inconsistent", f"line 1: prices of {date} for a window that had ended before")
    return date
