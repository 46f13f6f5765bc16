"""Judging traffic windows: which of them count, what keeps a verdict from being good, and the rules on what they hold.

What is missing never decides anything: it keeps a verdict from being `promote` and can not make it `reject`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations, pairwise
from typing import Any, Literal

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.evidence import envelope as envelopes
from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.evidence.window import SCHEMA, VERSIONS, LoadedWindow, Window
from pulumi_infercrane.guard.judging.rule import Finding, Member, Rule, Settings, Sides, unjudged, unknown
from pulumi_infercrane.guard.policy import Policy, Waiver, same_stack
from pulumi_infercrane.guard.reasons import GATES, Problem, gate_rank
from pulumi_infercrane.guard.rollout.benchmark import benchmark_of
from pulumi_infercrane.guard.rollout.question import (
    CLOCK_TOLERANCE,
    Question,
    of_this_route,
    vouched_for,
    window_problem,
)
from pulumi_infercrane.guard.rules import find_kind
from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.guard.verdict import Judged, confirmed, in_order_of_weight, waived

COMPLETE_SHARE = 0.95
"""Of the time judged that windows must cover: leaving out the bad ones must not help."""

ERROR_FRACTION = "benchmark.error_fraction"
ERROR_DIFFERENCE = "benchmark.error_fraction_difference"
LATENCIES = ("benchmark.ttft_p95", "benchmark.e2e_p95")
ATTAINMENT = "benchmark.attainment"
OBSERVED = Rule("window.observed", "window", hard=True, relative=False, bound=0.0, min_pass=1, min_compute=1)
RESTARTS = Rule("window.restarts", "window", hard=True, relative=False, bound=0.0, min_pass=1, min_compute=1)


@dataclass(frozen=True)
class Piece:
    """One window file that was given, and why it does not count."""

    loaded: LoadedWindow
    problem: Problem | None
    signers: tuple[str, ...] = ()
    """Ids of the keys that vouch for it."""

    @property
    def obstacle(self) -> Problem | None:
        """What is wrong with the file itself: it might hold what speaks against the candidate."""
        if self.problem is None or (self.loaded.window and self.problem.code not in GATES["integrity"]):
            return None
        name = f"{self.loaded.file}: " if self.loaded.file else ""
        return Problem(self.problem.code, name + self.problem.detail)

    def record(self) -> dict[str, Any]:
        """One entry of a decision record's `windows`."""
        record: dict[str, Any] = {"sha256": self.loaded.sha256, "used": self.problem is None}
        if self.loaded.window:
            times = {"started_at": self.loaded.window.started, "ended_at": self.loaded.window.ended}
            record |= {name: format_time(time) for name, time in times.items()}
        if self.obstacle and self.loaded.file:
            record["file"] = self.loaded.file
        if self.signers:
            record["signers"] = list(self.signers)
        return record | ({"reasons": [str(self.problem)]} if self.problem else {})


@dataclass(frozen=True)
class Selection:
    """The windows of one question. `used` are in order of time; `problem` keeps a verdict from being good."""

    question: Question
    pieces: tuple[Piece, ...]
    used: tuple[Window, ...]
    problem: Problem | None
    overlap: bool

    @property
    def digest(self) -> str:
        """Over every window that was given, used or not."""
        return digest([piece.loaded.sha256 for piece in self.pieces])

    @property
    def observed(self) -> timedelta:
        """Time that was watched. Where counts were lost it was not, whatever was counted there is true."""
        return _watched(self.used)

    @property
    def signers(self) -> list[str]:
        """Ids of the keys that vouch for what is used."""
        return sorted({key for piece in self.pieces if piece.problem is None for key in piece.signers})

    @property
    def stage(self) -> Literal["early", "judgement"]:
        """An early look can only end in a rollback."""
        return "judgement" if self.observed >= self.question.at_least and not self.overlap else "early"

    @property
    def disjoint(self) -> tuple[Window, ...]:
        """The windows whose requests may be added up: none of them when they overlap."""
        return () if self.overlap else self.used


def select(question: Question, windows: Sequence[LoadedWindow]) -> Selection:
    """Sort out the windows. Their order and repetitions make no difference."""
    once = {loaded.sha256: loaded for loaded in windows}
    pieces = tuple(_piece(question, loaded) for loaded in sorted(once.values(), key=_by_time))
    used = tuple(piece.loaded.window for piece in pieces if piece.loaded.window and piece.problem is None)
    overlap = any(later.started < earlier.ended for earlier, later in pairwise(used))
    problems = list(_obstacles(question, pieces, used, overlap))
    return Selection(question, pieces, used, _earliest(problems), overlap)


def _piece(question: Question, loaded: LoadedWindow) -> Piece:
    problem = window_problem(question, loaded)
    if problem:
        return Piece(loaded, problem)
    signers, untrusted = vouched_for(question.trust, loaded)
    return Piece(loaded, untrusted, signers)


def _by_time(loaded: LoadedWindow) -> tuple[str, ...]:
    window = loaded.window
    times = (window.started.isoformat(), window.ended.isoformat()) if window else ("", "")
    return (*times, loaded.sha256)


def _earliest(problems: Sequence[Problem]) -> Problem | None:
    return min(problems, key=lambda problem: gate_rank(problem.code)) if problems else None


def _obstacles(question: Question, pieces: Sequence[Piece], used: Sequence[Window], overlap: bool) -> Iterator[Problem]:
    yield from (piece.obstacle for piece in pieces if piece.obstacle)
    if question.withdrawn:
        yield Problem("evidence_withdrawn", f"{len(question.withdrawn)} windows an earlier decision used are gone")
    if not used:
        aside = Counter(piece.problem.code for piece in pieces if piece.problem)
        listed = "".join(f"; {number} set aside as {code}" for code, number in sorted(aside.items()))
        yield Problem("no_evidence", f"of {len(pieces)} windows given none is of this route since it changed{listed}")
        return
    if overlap:
        yield Problem("conflict", "windows overlap: the same requests would count twice")
    stacks = sorted({window.stack for window in used if window.stack})
    if not all(same_stack(one, other) for one, other in combinations(stacks, 2)):
        yield Problem("conflict", f"windows of {' and '.join(stacks)}: which stack is meant, in full?")
    age = question.as_of - used[-1].ended
    if age > question.fresh:
        yield Problem(
            "stale", f"the newest window ended at {format_time(used[-1].ended)}: is the router still writing?"
        )
    yield from _idle(question, used)
    yield from _losses(question, pieces, used)
    yield from _gaps(question, used)


def _idle(question: Question, used: Sequence[Window]) -> Iterator[Problem]:
    for revision, who in ((revision, _who(question, revision)) for revision in question.weights):
        binding = used[-1].bindings[revision]
        if binding.judged == 0:
            faults = sum(binding.client_faults.values())
            beside = f" ({faults} client faults, {binding.client_cancelled} cancelled)" if binding.attempted else ""
            yield Problem("no_traffic", f"the {who} answered no request in the newest window{beside}")
    unobserved = sum(window.bindings[revision].unobserved for window in used for revision in question.weights)
    if unobserved:
        text = f"of {unobserved} requests the router cannot say how they ended"
        yield Problem("truncated", text, "windows of which all is known")


def _who(question: Question, revision: str) -> str:
    return "candidate" if revision == question.candidate else "baseline"


def _losses(question: Question, pieces: Sequence[Piece], used: Sequence[Window]) -> Iterator[Problem]:
    """Who makes processes of the router die would hide what it fails: as much as for a good end is watched anew."""
    lost = [window for window in _about(question, pieces) if window.lost]
    if lost:
        last = max(window.ended for window in lost)
        since = _watched([window for window in used if window.started >= last])
        if since < question.at_least:
            seconds, least = since.total_seconds(), question.at_least.total_seconds()
            what = f"counts of a {lost[-1].lost} process were lost until {format_time(last)}"
            text = f"{what}: {seconds:g} of {least:g} s were watched since"
            yield Problem("truncated", text, f"windows of {least:g} s since")


def _about(question: Question, pieces: Sequence[Piece]) -> Iterator[Window]:
    """Windows of this route since it changed, also those that do not count."""
    latest = question.as_of + CLOCK_TOLERANCE
    for window in (piece.loaded.window for piece in pieces):
        if window and of_this_route(question, window) and question.started < window.ended <= latest:
            yield window


def _watched(windows: Sequence[Window]) -> timedelta:
    return sum((window.ended - window.started for window in windows if not window.lost), timedelta())


def _gaps(question: Question, used: Sequence[Window]) -> Iterator[Problem]:
    observed, whole = (
        _watched(used).total_seconds(),
        (used[-1].ended - question.started).total_seconds(),
    )
    if observed < COMPLETE_SHARE * whole:
        yield Problem("truncated", f"the windows cover {observed:g} of {whole:g} s", "all windows of that time")
    least = question.at_least.total_seconds()
    if observed < least:
        yield Problem("truncated", f"{observed:g} of {least:g} s were watched", f"windows of {least:g} s together")


# --- rules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """One of several looks at growing data. `number` counts the looks that could have come to the same conclusion."""

    stage: Literal["early", "judgement"]
    number: int
    alpha: float

    def record(self) -> dict[str, Any]:
        """The `look` of a decision record."""
        return {"stage": self.stage, "number": self.number, "alpha": self.alpha}


def look_at(selection: Selection, policy: Policy, history: Sequence[Mapping[str, Any]]) -> Look:
    """Which look this is, by the decisions already made about the same thing; the same windows again are no new one."""
    seen = {record["windows_digest"] for record in history if record["look"]["stage"] == selection.stage}
    number = 1 + len(seen - {selection.digest})
    return Look(selection.stage, number, round(policy.settings.alpha / number, 9))


def used_before(history: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The windows that decisions used."""
    return frozenset(entry["sha256"] for record in history for entry in record["windows"] if entry["used"])


def rule_of(policy: Policy, rule_id: str) -> Rule:
    """A rule as the policy has it; with its defaults where the policy has none."""
    for rule in policy.rules:
        if rule.id == rule_id:
            return rule
    form = find_kind("benchmark").form(rule_id)
    if form is None or form.default is None:
        raise KeyError(rule_id)
    return Rule(rule_id, "benchmark", form.hard, form.bound == "margin", form.default, form.min_pass, form.min_compute)


def judge_observed(selection: Selection) -> Finding:
    """Whether the windows are enough to conclude anything from."""
    if selection.problem:
        return unjudged(selection.problem)
    seconds = selection.observed.total_seconds()
    return Finding("pass", "within_margin", f"watched for {seconds:g} s", notes=_shed(selection))


def _shed(selection: Selection) -> tuple[str, ...]:
    """What clients did, by side: no failure of a model, but told."""
    notes = []
    for revision in selection.question.weights:
        bindings = [window.bindings[revision] for window in selection.used]
        attempted = sum(binding.attempted for binding in bindings)
        faults = sum(sum(binding.client_faults.values()) for binding in bindings)
        cancelled = sum(binding.client_cancelled for binding in bindings)
        who = _who(selection.question, revision)
        notes.append(f"{who}: {faults} client faults and {cancelled} cancelled of {attempted} requests")
    return tuple(notes)


def judge_restarts(selection: Selection) -> Finding:
    """Restarts of the candidate: a fact, not a share, so one is enough and overlapping windows do not matter."""
    restarts = sum(window.bindings[selection.question.candidate].restarts for window in selection.used)
    if restarts:
        return Finding("fail", "hard_event", f"the candidate was restarted {restarts} times", estimate=float(restarts))
    if not selection.used:
        return unknown("no_evidence", "no window tells")
    return Finding("pass", "within_margin", "the candidate was not restarted", estimate=0.0, limit=0.0)


def judge_benchmark(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    """A rule for benchmarks on traffic. Quantiles need values, objectives need values or a bucket edge at them."""
    records: list[Benchmark] = [member.record for member in sides.all]
    if rule.id in LATENCIES and any(record.requests is None for record in records):
        return unknown("summary_only", "buckets hold no quantiles", needs="let the router write values")
    if rule.id == ATTAINMENT and any(record.good is None for record in records):
        wanted = " and ".join(f"{name} {most:g}" for name, most in settings.slo.items())
        return unknown("percentile_of_percentiles", f"neither values nor bucket edges tell who met {wanted}")
    return replace(find_kind(rule.kind).judge(rule, sides, settings), evidence=())


def member_of(revision: str, used: Sequence[Window], slo: Mapping[str, float]) -> Member | None:
    """What a revision did in windows, as one benchmark. None without any request to judge."""
    bindings = [window.bindings[revision] for window in used if revision in window.bindings]
    record = benchmark_of(bindings, slo)
    return Member(_envelope(revision, used), record) if record.attempted else None


def judge_all(
    rules: Sequence[Rule],
    selection: Selection,
    sides: tuple[Member | None, Member | None],
    no_baseline: str,
    settings: Settings,
) -> list[Judged]:
    """Every rule on the traffic of candidate and baseline; `no_baseline` says why there is no second side."""
    candidate, baseline = sides
    if candidate is None:
        problem = selection.problem or Problem("no_traffic", "no request")
        nothing = unknown(problem.code, "nothing to judge it on", whole_kind=True)
        return [Judged(rule, nothing, required=True) for rule in rules]
    missing = None if baseline else Problem("no_traffic", no_baseline)
    both = Sides((candidate,), (baseline,) if baseline else (), missing)
    return [Judged(rule, judge_benchmark(rule, both, settings), required=True) for rule in rules]


def settled(judged: Sequence[Judged], policy: Policy, look: Look, question: Question) -> list[Judged]:
    """The findings after the correction for several rules, and after waivers."""
    return waived(confirmed(judged, look.alpha), waivers_for(policy, judged), question.candidate, question.as_of)


def waivers_for(policy: Policy, judged: Sequence[Judged]) -> tuple[Waiver, ...]:
    """The policy's waivers of rules that were judged here."""
    return tuple(waiver for waiver in policy.waivers if waiver.rule in {one.rule.id for one in judged})


def reasons(judged: Sequence[Judged], verdict: str) -> list[str]:
    """What decided first; under a verdict other than promote what passed is left out."""
    shown = [one for one in in_order_of_weight(judged) if verdict == "promote" or one.finding.outcome != "pass"]
    return list(dict.fromkeys(one.line for one in shown))


def _envelope(revision: str, used: Sequence[Window]) -> envelopes.Envelope:
    """What the rules need to know about a side beside its figures.

    A router knows the digest of a revision and nothing else about it. The scenario is the same on both sides because
    one router dealt the same requests out to both.
    """
    file = envelopes.EvidenceFile.model_construct(
        part="primary", path="", sha256="", size=0, media="", tool=SCHEMA, tool_version=VERSIONS[-1]
    )
    return envelopes.Envelope.model_construct(
        kind="benchmark",
        files=(file,),
        subject=envelopes.Subject.model_construct(revision_digest=revision, tokenizer_digest=revision),
        scenario=envelopes.Scenario(id="traffic", load_model="open", path="router"),
        window=envelopes.Window(started_at=format_time(used[0].started), ended_at=format_time(used[-1].ended)),
        evidence_id="",
    )
