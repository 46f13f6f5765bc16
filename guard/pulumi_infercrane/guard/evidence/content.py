"""Which measurement a record is, whatever file it was written to.

A file that was written again (indented, its keys or requests in another order, under another label) is no second
measurement. What tells two measurements apart are the times in them: no two runs take exactly as long. Counts, scores
and prices do not: two soaks without a failure, two passes of a greedy model and two windows at one price may well be
equal. A record without enough times therefore has no content of its own, and only its file says whether it is a copy.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from pulumi_infercrane.guard.evidence.records import Benchmark, Record, Reliability, Replay

FEWEST_TIMES = 4
"""Different times below which two records may be equal by chance. Four that could each have been one of a hundred, as
where a tool rounds to milliseconds, are equal once in a hundred million."""

_DROPPED = 12
_HALF = 1 << (_DROPPED - 1)


def content_of(record: Record) -> frozenset[str]:
    """Digests of what was measured: one of the requests, one of what the tool says in sum; a copy may lack either.

    Records that have one in common are one measurement.
    """
    found = (_digest(type(record).__name__, columns) for columns in _times(record))
    return frozenset(digest for digest in found if digest)


def _times(record: Record) -> Iterator[tuple[Iterable[float], ...]]:
    """Columns of seconds that stand for a record; each tuple does alone."""
    if isinstance(record, Benchmark):
        if record.requests:
            yield record.requests.ttft_s, record.requests.e2e_s
        yield ([time for latency in record.latencies.values() for time in latency.times_s],)
    elif isinstance(record, Replay):
        answers = record.requests.values()
        yield [one.ttft_s for one in answers if one.ttft_s], [one.e2e_s for one in answers if one.e2e_s]
    elif isinstance(record, Reliability):
        yield (record.times_s,)


def _digest(kind: str, columns: Iterable[Iterable[float]]) -> str:
    """The same whatever the order within a column; empty when there are too few different times."""
    ordered = [array("Q", sorted(_as_told(column))) for column in columns]
    if sum(len(list(islice(groupby(column), FEWEST_TIMES))) for column in ordered) < FEWEST_TIMES:
        return ""
    content = hashlib.sha256(f"{kind} {[len(column) for column in ordered]}".encode())
    for column in ordered:
        content.update(column)
    return content.hexdigest()


def _as_told(column: Iterable[float]) -> list[int]:
    """The times as integers, to 40 of their 52 bits: read from another unit one may be the double beside it."""
    bits = array("Q", array("d", [time for time in column if time == time]).tobytes())
    return [(one + _HALF) >> _DROPPED for one in bits]
