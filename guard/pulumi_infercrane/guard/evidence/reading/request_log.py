"""Requests as a proxy or a tracer logged them, gathered one by one and never kept. No text of theirs is read."""

import math
from array import array
from dataclasses import dataclass, field

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_revision, check_workload
from pulumi_infercrane.guard.evidence.reading.moments import check_window, from_epoch
from pulumi_infercrane.guard.evidence.reading.rows import Rows, mean, tpot
from pulumi_infercrane.guard.evidence.records import Benchmark, Column, Cost
from pulumi_infercrane.guard.reasons import Inadmissible

COUNTED_BY = "usage"


@dataclass
class RequestLog:
    """One log while it is read. Times are seconds since 1970."""

    rows: Rows = field(default_factory=Rows)
    ids: set[str] = field(default_factory=set)
    sources: set[tuple[str, ...]] = field(default_factory=set)
    """Who answered, as model and labels: one, or the log is of several revisions."""
    started: float = math.inf
    ended: float = -math.inf
    streamed: int = 0
    spend: Column = field(default_factory=lambda: array("d"))

    def begin(
        self, identifier: str, model: str, labels: tuple[str, ...], started: float, ended: float, where: str
    ) -> None:
        """The next request, answered by a model that the log labels so.

        Raises:
            Inadmissible: `counters_disagree` for an id that occurs twice.
        """
        if identifier in self.ids:
            raise Inadmissible("counters_disagree", f"{where}: id {identifier[:60]!r} occurs twice")
        self.ids.add(identifier)
        self.sources.add((model, *labels))
        self.started, self.ended = min(self.started, started), max(self.ended, ended)

    def complete(self, ttft_s: float | None, e2e_s: float, in_tokens: float, out_tokens: float) -> None:
        """It was answered; `ttft_s` is None for an answer in one piece."""
        self.streamed += ttft_s is not None
        first = math.nan if ttft_s is None else ttft_s
        if first > e2e_s:
            return self.rows.fail("bad_value")
        return self.rows.add((first, tpot(first, e2e_s, out_tokens), e2e_s, in_tokens, out_tokens))

    def run(self, envelope: Envelope, select: str) -> Benchmark:
        """All of them. `select` names what chooses one source out of several.

        Raises:
            Inadmissible: `no_evidence`, `ambiguous_run`, or as `check_window` and `Rows.requests`.
        """
        requests = self.rows.requests()
        if not requests:
            raise Inadmissible("no_evidence", "the file holds no such request")
        if len(self.sources) > 1:
            shown = "; ".join(" ".join(source) for source in sorted(self.sources)[:5])
            raise Inadmissible("ambiguous_run", f"answers of several ({shown}): choose with {select}")
        started, ended = (from_epoch(seconds, "times") for seconds in (self.started, self.ended))
        check_window(envelope, started, ended)
        self._check_source(envelope)
        answered = len(requests) - requests.failed
        tokens = mean(requests.out_tokens)
        run = Benchmark(
            attempted=len(requests),
            failed=requests.failed,
            errors=dict(+self.rows.errors),
            streaming=None if 0 < self.streamed < answered else self.streamed > 0,
            token_source="" if tokens is None else COUNTED_BY,
            duration_s=(ended - started).total_seconds(),
            requests=requests,
            in_tokens=mean(requests.in_tokens),
            out_tokens=tokens,
        )
        return check_workload(run, envelope)

    def _check_source(self, envelope: Envelope) -> None:
        ((model, *labels),) = self.sources
        check_model(model or None, envelope)
        for label in labels:
            check_revision(label, envelope)

    def tokens(self, run: Benchmark) -> Cost:
        """Tokens and requests of the log, without money."""
        answered = sum(self.rows.ok)
        counted = run.requests or self.rows.requests()
        return Cost(
            currency="",
            duration_s=run.duration_s or 0.0,
            gpu_cost=None,
            output_tokens=_total(counted.out_tokens, answered),
            input_tokens=_total(counted.in_tokens, answered),
            requests=run.attempted,
        )


def _total(column: Column, answered: int) -> int | None:
    """None as soon as one answered request does not say."""
    known = [value for value in column if value == value]
    return int(math.fsum(known)) if len(known) == answered else None
