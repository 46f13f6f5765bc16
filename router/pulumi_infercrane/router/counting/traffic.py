"""What is in flight, and what became of it: counters per service and revision, kept over table changes."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from pulumi_infercrane.router.counting.tally import Tally
from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.protocol.observer import Observer, Outcome


class Cuttable(Protocol):
    """An exchange, as far as draining is concerned."""

    started_at: float

    def cut(self) -> None:
        """End it now, visibly broken for the client."""


class Load(NamedTuple):
    """What a revision has in flight, the age of the oldest of it, and how much a drain deadline has cut."""

    inflight: int = 0
    oldest_s: float = 0
    cut: int = 0


Loads = Mapping[tuple[str, str], Load]
"""By service and revision."""


KEPT_S = 120.0
"""A removed revision keeps its series for so long after its last request, so that its end is seen too."""


class Traffic:
    """One revision of one service. Only `Exchange` enters and leaves."""

    def __init__(self, service: str, revision: str) -> None:
        self.service = service
        self.revision = revision
        self.open: set[Cuttable] = set()
        self.outcomes: Counter[Outcome] = Counter()
        self.http_errors: Counter[int] = Counter()
        """Of the outcome `http_error`, by the status of the answer."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """(direction, source) → tokens."""
        self.ttft = Histogram()
        """Of streams, until their first content."""
        self.gaps = Histogram()
        """Between the events of streams that had begun; of those that were read together, the mean of each."""
        self.seconds = Histogram()
        """Of all requests, to the end of their answer."""
        self.cut = 0
        """Requests ended by the drain deadline."""
        self.drain_until: float | None = None
        """By the router's monotonic clock; None when not draining."""
        self.spilled: Counter[str] = Counter()
        """Requests that another revision answered because no replica of this one could, by that revision."""
        self.retried = 0
        """Requests that needed another replica, because the first took no connection."""
        self.not_renamed = 0
        """Answers that should name the alias and passed as they came, because they could not be read."""
        self.tally: Tally | None = None
        """Of the traffic window that is open; None while nobody asks for windows."""

    @property
    def inflight(self) -> int:
        return len(self.open)

    def oldest_seconds(self, now: float) -> float:
        """Age of the oldest request in flight."""
        return max((now - exchange.started_at for exchange in self.open), default=0.0)

    def record(self, outcome: Outcome, observer: Observer, started_at: float, now: float) -> None:
        """Book one finished request."""
        self.outcomes[outcome] += 1
        self.seconds.add(now - started_at)
        if observer.streaming and observer.first_content_at is not None:
            self.ttft.add(observer.first_content_at - started_at)
        if observer.usage is not None:
            self.tokens["prompt", "usage"] += observer.usage.prompt
            self.tokens["completion", "usage"] += observer.usage.completion
        elif observer.streaming:
            self.tokens["completion", "events"] += observer.content_events

    def cut_overdue(self, now: float) -> None:
        """End what is still open after the drain deadline."""
        if self.drain_until is None or now < self.drain_until:
            return
        for exchange in tuple(self.open):
            self.cut += 1
            exchange.cut()


class TrafficBook:
    """The counters of all revisions this process has served, and of requests no revision was found for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.unbound: Counter[Outcome] = Counter()
        """Requests the router answered itself, because no revision was found for them."""
        self.refused: Counter[tuple[str, str]] = Counter()
        """(service, reason) → requests the router answered with an error; no service while none was found."""
        self.recorded: Counter[str] = Counter()
        """Requests chosen for the recording, by what became of them; empty when nothing is recorded."""
        self.told: Counter[str] = Counter()
        """Requests by what became of telling them to the access log and to traces; empty without."""
        self.applied: Counter[tuple[str, str]] = Counter()
        """(service, result) → changes of its table: `applied`, `unchanged`, `refused` or `failed`."""
        self.loop_stall = Histogram()
        """How much later than asked the event loop came to a timer."""
        self.gc_pause = Histogram()
        """How long the interpreter stood still for the garbage collector."""
        self._traffic: dict[tuple[str, str], Traffic] = {}
        self._copies: dict[tuple[str, str], Traffic] = {}
        self._leaving: dict[tuple[str, str], float] = {}
        """Removed revisions whose requests had not ended, and when the last of them had, or was still open."""
        self.dropped_copies: Counter[tuple[str, str, str]] = Counter()
        """(service, revision, reason) → copies that were not made, or not read to their end."""

    def of(self, service: str, revision: str) -> Traffic:
        """The counters of a revision, new ones if there are none."""
        self._leaving.pop((service, revision), None)
        return _one_of(self._traffic, service, revision)

    def of_copies(self, service: str, revision: str) -> Traffic:
        """The counters of the requests that were copied to a revision."""
        return _one_of(self._copies, service, revision)

    def forget(self, service: str, revision: str) -> None:
        """A removed revision ends its series, once its requests have ended: one may have begun while it went."""
        one = self._traffic.get((service, revision))
        if one is not None and one.inflight:
            self._leaving[service, revision] = self.clock()
        else:
            self._drop(service, revision)

    def drop_ended(self) -> None:
        """End the series of removed revisions whose requests have ended since. Called by the sweep."""
        now = self.clock()
        for key, ended_at in tuple(self._leaving.items()):
            if self._traffic[key].inflight:
                self._leaving[key] = now
            elif now - ended_at > KEPT_S:
                del self._leaving[key]
                self._drop(*key)

    def _drop(self, service: str, revision: str) -> None:
        self._traffic.pop((service, revision), None)
        self._copies.pop((service, revision), None)
        for key in [key for key in self.dropped_copies if key[:2] == (service, revision)]:
            del self.dropped_copies[key]

    def all(self) -> tuple[Traffic, ...]:
        return tuple(self._traffic.values())

    def loads(self) -> Loads:
        """Of all revisions."""
        now = self.clock()
        return {key: Load(one.inflight, one.oldest_seconds(now), one.cut) for key, one in self._traffic.items()}

    def copies(self) -> tuple[Traffic, ...]:
        return tuple(self._copies.values())


def _one_of(known: dict[tuple[str, str], Traffic], service: str, revision: str) -> Traffic:
    """Made only when there is none: every change of a table asks for those of all revisions of all services."""
    one = known.get((service, revision))
    if one is None:
        one = known[service, revision] = Traffic(service, revision)
    return one
