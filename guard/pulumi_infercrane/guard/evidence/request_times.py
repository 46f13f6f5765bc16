"""How long the single requests of a run took, as what the run is known by, and how many of them two runs share.

A run that lost, gained or was appended requests is not another run: most of its times are those of the first. One equal
time proves nothing, so equal ones are counted against chance, and against how alike two honest runs may be.

Chance: each request falls on some key (its times as told), independently of the others. Of a key that occurs k times in
two independent runs together, all k are in one of them with a probability of at least 2^(1-k), whatever the precision
of the times, their distributions and the sizes of the runs. So at most so many keys are expected in both runs, and by
Hoeffding's inequality the probability of `t` more, of `n` keys that occur twice or oftener, is below exp(-2 t^2 / n).
It must be below exp(-21), or 8e-10.

Alike: asked the same thing twice, a server may take equally long to within what a tool rounds to. Therefore runs of
rounded times must share half of their requests, others hardly any.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pulumi_infercrane.guard.evidence.records import Benchmark, Column, Record, Reliability, Replay

CHANCE = 21.0
"""Minus the logarithm of the probability with which two independent runs of a pair are taken for overlapping."""
FEWEST = 42
"""Of which chance makes as many with that probability where no time repeats within a run."""
SHARE, SHARE_OF_ROUNDED = 0.01, 0.5
"""Of the requests of the smaller run. A hundredth moves no quantile that is judged."""
FINE_S = 1e-5
"""Times told in multiples of this are rounded: below it no server takes equally long twice."""

_ROUNDED = 1e-3
"""Off a multiple by less is what division leaves."""
_DROPPED = 12
_HALF = 1 << (_DROPPED - 1)


@dataclass(frozen=True)
class RequestTimes:
    """One key for each request that has a time: equal where all its times are."""

    keys: "array[int]"
    columns: tuple[Column, ...]
    """The times behind them."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def distinct(self) -> frozenset[int]:
        """Every key once."""
        return frozenset(self.keys)

    @cached_property
    def fine(self) -> bool:
        """Whether most times of any figure are told more finely than `FINE_S`."""
        return any(map(_is_fine, self.columns))


def request_times(record: Record | None) -> RequestTimes:
    """Times of the requests of a record; empty for one without a record, or without times of single requests."""
    columns = _columns(record)
    told = zip(*map(as_told, columns), strict=True)
    keys = array("q", [key for key in map(hash, told) if key not in _NOTHING])
    return RequestTimes(keys, columns)


def shared(one: RequestTimes, other: RequestTimes) -> int:
    """Requests that two runs have in common; 0 when they may be equal by chance, or are too few to matter."""
    common = len(one.distinct & other.distinct)
    if common < FEWEST:
        return 0
    share = SHARE if one.fine and other.fine else SHARE_OF_ROUNDED
    enough = common >= share * min(len(one.distinct), len(other.distinct))
    return common if enough and _beyond_chance(one, other, common) else 0


def as_told(column: Iterable[float]) -> list[int]:
    """The times as integers, to 40 of their 52 bits: read from another unit one may be the double beside it."""
    bits = array("Q", array("d", column).tobytes())
    return [(one + _HALF) >> _DROPPED for one in bits]


_NO_TIME = as_told([math.nan])
_NOTHING = (hash((*_NO_TIME,)), hash((*_NO_TIME, *_NO_TIME)))
"""Keys of a request without any time."""


def _columns(record: Record | None) -> tuple[Column, ...]:
    """Seconds, a column for each figure of a request; NaN where there is none."""
    if isinstance(record, Benchmark) and record.requests:
        return record.requests.ttft_s, record.requests.e2e_s
    if isinstance(record, Replay):
        answers = record.requests.values()
        first, whole = ([getattr(one, name) or math.nan for one in answers] for name in ("ttft_s", "e2e_s"))
        return array("d", first), array("d", whole)
    return (record.times_s if isinstance(record, Reliability) else array("d"),)


def _is_fine(column: Column) -> bool:
    told = [time / FINE_S for time in column if time == time]
    return 2 * sum(abs(time - round(time)) > _ROUNDED for time in told) > len(told)


def _beyond_chance(one: RequestTimes, other: RequestTimes, common: int) -> bool:
    """See the module text."""
    together = Counter(one.keys)
    together.update(other.keys)
    repeated = Counter(times for times in together.values() if times > 1)
    beyond = common - sum(keys * (1 - 2.0 ** (1 - times)) for times, keys in repeated.items())
    return beyond > 0 and 2 * beyond**2 >= CHANCE * repeated.total()
