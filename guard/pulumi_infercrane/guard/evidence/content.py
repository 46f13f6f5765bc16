"""Which measurement a record is, whatever file it was written to.

A file that was written again (indented, its keys or requests in another order, under another label) is no second
measurement. What tells two measurements apart are the times in them: no two runs take exactly as long. Counts, scores
and prices do not: two soaks without a failure, two passes of a greedy model and two windows at one price may well be
equal. A record without enough times therefore has no content of its own, and only its file says whether it is a copy.
"""

import hashlib
from array import array
from collections.abc import Iterable

from pulumi_infercrane.guard.evidence.records import Benchmark, Record
from pulumi_infercrane.guard.evidence.request_times import RequestTimes, as_told

FEWEST_TIMES = 4
"""Different times below which two records may be equal by chance. Four that could each have been one of a hundred, as
where a tool rounds to milliseconds, are equal once in a hundred million."""


def content_of(record: Record, times: RequestTimes) -> frozenset[str]:
    """What stands for a record with these times: one of its requests, one of what the tool says in sum.

    A copy may lack either. Records that have one in common are one measurement.
    """
    found = (_of_requests(record, times), _of_sums(record))
    return frozenset(content for content in found if content)


def _of_requests(record: Record, times: RequestTimes) -> str:
    """The same whatever their order; empty when there are too few different ones."""
    if len(times.distinct) < FEWEST_TIMES:
        return ""
    return f"{type(record).__name__} {len(times)} {sum(times.keys)}"


def _of_sums(record: Record) -> str:
    if not isinstance(record, Benchmark):
        return ""
    told = sorted(as_told(_known(time for latency in record.latencies.values() for time in latency.times_s)))
    return hashlib.sha256(array("Q", told)).hexdigest() if len(set(told)) >= FEWEST_TIMES else ""


def _known(times: Iterable[float]) -> Iterable[float]:
    return (time for time in times if time == time)
