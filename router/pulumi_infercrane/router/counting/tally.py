"""What one revision did in one traffic window: how its requests ended, and how long the complete ones took."""

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_infercrane.router.protocol.observer import Observer, Outcome

FAILURES = (
    "connect_failed",
    "error_event",
    "first_byte_timeout",
    "http_error",
    "idle_timeout",
    "upstream_closed",
    "upstream_protocol",
)
"""Classes of `failed_by_class` in `infercrane.window/v1`."""

LONGEST_S = 86_400
"""A longer time is no figure of a request."""

Counts = Mapping[str, Any]
"""A tally as a JSON object: what one process says of another part of the same window."""

_COUNTED_AS: Mapping[Outcome, str] = {
    Outcome.ABORTED: "error_event",
    Outcome.TRUNCATED: "cut_streams",
    Outcome.TOTAL_TIMEOUT: "idle_timeout",  # the window has no class of its own for it
    Outcome.SHED: "unobserved",  # we ended it: how it would have ended is not known
}


class Tally:
    """Requests that ended in a window. Those that began before `since` are left out: they saw another route.

    Times are in seconds, one for each complete request, in the same order; NaN where a request has none.
    """

    __slots__ = ("_tokens_known", "client_faults", "counts", "e2e_s", "since", "tpot_s", "ttft_s")

    def __init__(self, since: float = 0) -> None:
        self.since = since
        """By the router's monotonic clock."""
        self._empty()

    def _empty(self) -> None:
        self.counts: Counter[str] = Counter()
        """By class of failure, `cut_streams`, `client_cancelled` or `unobserved`."""
        self.client_faults: Counter[int] = Counter()
        self.ttft_s = array("d")
        self.tpot_s = array("d")
        self.e2e_s = array("d")
        self._tokens_known = True

    @property
    def completed(self) -> int:
        return len(self.e2e_s)

    @property
    def attempted(self) -> int:
        return self.completed + self.counts.total() + self.client_faults.total()

    def add(self, outcome: Outcome, status: int, observer: Observer, started_at: float, ended_at: float) -> None:
        """Book one request that ended; `status` is that of the answer, 0 without one."""
        if started_at < self.since:
            return
        if outcome is Outcome.COMPLETE:
            self._complete(observer, started_at, ended_at)
        elif outcome is not Outcome.HTTP_ERROR:
            self.counts[_COUNTED_AS.get(outcome, outcome)] += 1
        elif 400 <= status < 500:
            self.client_faults[status] += 1
        else:
            self.counts["http_error" if status >= 500 else "upstream_protocol"] += 1

    def take(self) -> Counts:
        """What was counted since the last time, with NaN for `null`; counting goes on from nothing."""
        taken = {
            "counts": {str(name): count for name, count in self.counts.items()},
            "client_faults": {str(status): count for status, count in self.client_faults.items()},
            "ttft_s": self.ttft_s.tolist(),
            "tpot_s": self.tpot_s.tolist(),
            "e2e_s": self.e2e_s.tolist(),
            "tokens_known": self._tokens_known,
        }
        self._empty()
        return taken

    def merge(self, taken: Counts) -> None:
        """Add what was taken from another tally. Every request keeps its own figures, so nothing is approximate."""
        self.counts.update(taken["counts"])
        self.client_faults.update({int(status): count for status, count in taken["client_faults"].items()})
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            getattr(self, name).extend(_figures(taken[name]))
        self._tokens_known = self._tokens_known and taken["tokens_known"]

    def binding(self, revision: str, weight: int) -> dict[str, Any]:
        """One entry of a window's `bindings`. `restarts` are none: a router does not see them."""
        binding = {
            "revision": revision,
            "weight": weight,
            "attempted": self.attempted,
            "completed": self.completed,
            "failed_by_class": {name: self.counts[name] for name in FAILURES if self.counts[name]},
            "cut_streams": self.counts["cut_streams"],
            "client_faults": {str(status): count for status, count in sorted(self.client_faults.items())},
            "client_cancelled": self.counts["client_cancelled"],
            "unobserved": self.counts["unobserved"],
            "restarts": 0,
            "ttft_s": self.ttft_s.tolist(),
            "e2e_s": self.e2e_s.tolist(),
        }
        return binding | ({"tpot_s": self.tpot_s.tolist()} if self._tokens_known else {})

    def _complete(self, observer: Observer, started_at: float, ended_at: float) -> None:
        first, tpot, usage = observer.first_content_at, math.nan, observer.usage
        self.e2e_s.append(_figure(ended_at - started_at))
        if first is None or not observer.streaming:
            self.ttft_s.append(math.nan)
        else:
            self.ttft_s.append(_figure(first - started_at))
            if usage is None:
                self._tokens_known = False
            elif usage.completion > 1:
                tpot = _figure((ended_at - first) / (usage.completion - 1))
        self.tpot_s.append(tpot)


def _figure(seconds: float) -> float:
    """To the microsecond: more digits say nothing, and take room in a file."""
    return (round(seconds, 6) or 1e-6) if seconds <= LONGEST_S else math.nan


def _figures(values: Sequence[float | None]) -> "array[float]":
    return array("d", [math.nan if value is None else value for value in values])
