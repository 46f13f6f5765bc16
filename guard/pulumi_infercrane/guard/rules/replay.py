"""Rules over recorded requests that both revisions answered again, paired by request.

Only requests the baseline answered are compared. One the candidate did not answer is a new error, and counts as the
worst in every other share, so that failing never looks better than answering badly.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.evidence.records import Replayed
from pulumi_infercrane.guard.judging.comparability import scenario_problem, version_problem
from pulumi_infercrane.guard.judging.pairs import judge_band, judge_pairs, judge_ratio, too_few_pairs
from pulumi_infercrane.guard.judging.proportions import judge_counted
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Kind,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    disagree,
    ids,
    in_conflict,
    too_short,
    unjudged,
    unknown,
)
from pulumi_infercrane.guard.reasons import Problem

COVERAGE = 0.95
"""Share of the planned requests that must be there, and answered by the baseline."""

_TELLS_AGREEMENT = ("replay.new_error_fraction", "replay.similarity")
_NOTHING_CALLED = "nothing"
_MISSING = Replayed(ok=False, outcome="missing")


@dataclass(frozen=True)
class Pair:
    """One recorded request: the baseline's answers, at least one, and what the candidate did in every pass."""

    baseline: tuple[Replayed, ...]
    candidate: tuple[Replayed, ...]

    @property
    def answered(self) -> bool:
        return all(one.ok for one in self.candidate)


@dataclass(frozen=True)
class _Share:
    """A property of an answer, 0..1, that a share of the answers has, and in which pairs it is compared."""

    value: Callable[[Replayed], float]
    higher_is_better: bool
    what: str
    asked: Callable[[Pair], bool] = lambda pair: True
    told: Callable[[Replayed], bool] = lambda one: True
    """Whether the file says it of an answer."""

    @property
    def worst(self) -> float:
        return 0.0 if self.higher_is_better else 1.0

    def of(self, answers: Sequence[Replayed]) -> float:
        """The mean over several passes; a failed one counts as the worst."""
        return math.fsum(self.value(one) if one.ok else self.worst for one in answers) / len(answers)


@dataclass(frozen=True)
class _Figure:
    """A figure of an answer whose ratio is compared; `band` when being smaller is no better than being larger."""

    name: str
    what: str
    band: bool

    def of(self, answers: Sequence[Replayed]) -> float | None:
        """The mean over several passes, +inf when one failed, None when an answer has no such figure."""
        if not all(one.ok for one in answers):
            return math.inf
        values = [getattr(one, self.name) for one in answers]
        return None if None in values else math.fsum(values) / len(values)


_SHARES = {
    "structured": _Share(
        lambda one: float(bool(one.structured)),
        True,
        "valid structure, difference",
        lambda pair: any(one.structured is not None for one in pair.baseline),
    ),
    "tool_calls": _Share(
        lambda one: float(bool(one.tool_calls)),
        True,
        "tool calls, difference",
        lambda pair: any(one.tool_calls for one in pair.baseline + pair.candidate),
    ),
    "refused": _Share(
        lambda one: float(bool(one.refused)),
        False,
        "refused share, difference",
        told=lambda one: one.refused is not None,
    ),
    "truncated": _Share(
        lambda one: float(one.finish_reason == "length"),
        False,
        "truncated share, difference",
        told=lambda one: bool(one.finish_reason),
    ),
    "similarity": _Share(lambda one: one.similarity or 0.0, True, "similarity, difference from identical"),
}
_FAILED = _Share(lambda one: 0.0, False, "failed")
_FIGURES = {
    "output_length": _Figure("out_tokens", "median ratio of lengths", band=True),
    "e2e_p50": _Figure("e2e_s", "median ratio", band=False),
}


def _paired(default: float, hard: bool, unit: str = "share") -> RuleForm:
    return RuleForm("margin", default, hard, min_pass=300, min_compute=30, unit=unit, counts="pairs")


_FORMS = {
    "replay.new_error_fraction": replace(_paired(0.01, hard=True), min_pass=1, min_compute=1),
    "replay.structured": _paired(0.01, hard=True),
    "replay.tool_calls": _paired(0.01, hard=True),
    "replay.refused": _paired(0.02, hard=True),
    "replay.truncated": _paired(0.02, hard=True),
    "replay.output_length": _paired(0.25, hard=False, unit="ratio - 1, both ways"),
    "replay.e2e_p50": _paired(0.10, hard=False, unit="ratio - 1"),
    "replay.similarity": _paired(0.10, hard=False, unit="similarity 0..1"),
}


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    problem = sides.no_baseline or _incomparable(rule, sides)
    if problem:
        return unjudged(problem)
    pairs = pairs_of(sides)
    problem = _uncovered(pairs, sides)
    if problem:
        return unjudged(problem)
    if rule.id == "replay.tool_calls":
        asked = [pair for pair in pairs if _SHARES["tool_calls"].asked(pair)]
        pairs = [_as_calls_kept(pair, _greedy(sides)) for pair in asked]
    finding = _judge_pairs(rule, pairs, settings.alpha)
    if _passes_disagree(rule, sides, settings.alpha):
        finding = in_conflict(finding)
    notes = _agreement(pairs, sides) if rule.id in _TELLS_AGREEMENT else ()
    return replace(finding, evidence=ids(sides.all), notes=(*finding.notes, *notes))


def _judge_pairs(rule: Rule, pairs: Sequence[Pair], alpha: float) -> Finding:
    name = rule.id.partition(".")[2]
    if name == "new_error_fraction":
        failed = sum(not pair.answered for pair in pairs)
        return judge_counted(rule, (failed, len(pairs)), rule.bound, alpha, "pairs")
    if name in _FIGURES:
        return _judge_figure(rule, _FIGURES[name], pairs, alpha)
    return _judge_share(rule, _SHARES[name], [pair for pair in pairs if _SHARES[name].asked(pair)], alpha)


def _judge_share(rule: Rule, share: _Share, pairs: Sequence[Pair], alpha: float) -> Finding:
    few = too_few_pairs(rule, len(pairs))
    if few:
        return few
    answers = [one for pair in pairs for one in pair.baseline + pair.candidate if one.ok]
    silent = sum(not share.told(one) for one in answers)
    if silent:
        return unknown("no_evidence", f"the files do not say it of {silent} of {len(answers)} answers")
    values = [(_expected(rule, share, pair), share.of(pair.candidate)) for pair in pairs]
    return judge_pairs(rule, values, share.higher_is_better, share.what, alpha)[1]


def _expected(rule: Rule, share: _Share, pair: Pair) -> float:
    """A recorded similarity is to the baseline's answer, which is as similar to itself as can be."""
    return 1.0 if rule.id == "replay.similarity" else share.of(pair.baseline)


def _judge_figure(rule: Rule, figure: _Figure, pairs: Sequence[Pair], alpha: float) -> Finding:
    values = [(figure.of(pair.baseline), figure.of(pair.candidate)) for pair in pairs]
    known = [(below, above) for below, above in values if below and above is not None]
    few = too_few_pairs(rule, len(known))
    if few:
        return few
    if len(known) < COVERAGE * len(values):
        return unknown("no_evidence", f"{len(known)} of {len(values)} pairs have the figure on both sides")
    return (judge_band if figure.band else judge_ratio)(rule, known, figure.what, alpha)


# --- pairs ------------------------------------------------------------------------------------------------------


def pairs_of(sides: Sides) -> list[Pair]:
    """Every request that the baseline answered, by id; repeated passes of a side come together."""
    answers: dict[str, list[Replayed]] = {}
    for member in sides.baseline:
        for identifier, one in member.record.requests.items():
            if one.ok:
                answers.setdefault(identifier, []).append(one)
    return [
        Pair(tuple(baseline), tuple(member.record.requests.get(identifier, _MISSING) for member in sides.candidate))
        for identifier, baseline in sorted(answers.items())
    ]


def _greedy(sides: Sides) -> bool:
    return all(member.record.greedy for member in sides.all)


def _as_calls_kept(pair: Pair, greedy: bool) -> Pair:
    """The pair with a tool call wherever the right thing was done, which may be to call nothing.

    Where nothing was sampled, a call with other names or arguments is not the call that was asked for.
    """
    wanted = {one.tool_calls for one in pair.baseline if one.tool_calls}
    if not wanted:
        return Pair(tuple(map(_as_not_called, pair.baseline)), tuple(map(_as_not_called, pair.candidate)))
    if not greedy:
        return pair
    kept = (one if one.tool_calls in wanted else replace(one, tool_calls="") for one in pair.candidate)
    return replace(pair, candidate=tuple(kept))


def _as_not_called(one: Replayed) -> Replayed:
    return replace(one, tool_calls="" if one.tool_calls else _NOTHING_CALLED)


def _incomparable(rule: Rule, sides: Sides) -> Problem | None:
    if len({(member.record.workload_digest, member.record.greedy) for member in sides.all}) > 1:
        return Problem("not_comparable", "the two sides answered different requests, or one of them sampled greedily")
    if rule.id == "replay.similarity" and not all(member.record.similarity for member in sides.candidate):
        return Problem("no_evidence", "the candidate's file records no similarity")
    if len({member.record.similarity for member in sides.candidate}) > 1:
        return Problem("not_comparable", "similarity was measured in different ways")
    return version_problem(sides.all) or scenario_problem(sides.all)


def _uncovered(pairs: Sequence[Pair], sides: Sides) -> Problem | None:
    planned = max(member.record.planned for member in sides.all)
    present = {identifier for member in sides.candidate for identifier in member.record.requests}
    both = [one for member in sides.baseline for one in member.record.requests if one in present]
    if len(set(both)) < COVERAGE * planned:
        return Problem("truncated", f"{len(set(both))} of {planned} planned requests are in the files of both sides")
    if len(pairs) < COVERAGE * planned:
        return Problem("baseline_broken", f"the baseline answered {len(pairs)} of {planned} planned requests")
    return None


def _passes_disagree(rule: Rule, sides: Sides, alpha: float) -> bool:
    """Repeated passes of one side differ by more than noise in what the rule is about."""
    return any(
        disagree([interval for member in side if (interval := _interval(rule, member, alpha))])
        for side in (sides.candidate, sides.baseline)
        if len(side) > 1
    )


def _interval(rule: Rule, member: Member, alpha: float) -> statistics.Interval | None:
    """The interval of one pass by itself; None when it holds too little."""
    name, answers = rule.id.partition(".")[2], list(member.record.requests.values())
    if name in _FIGURES:
        figures = sorted(figure for one in answers if (figure := _FIGURES[name].of([one])) is not None)
        return statistics.quantile_interval(figures, 0.5, alpha) if len(figures) >= rule.min_compute else None
    share = _SHARES.get(name, _FAILED)
    asked = [one for one in answers if share.asked(Pair((one,), (one,)))]
    return statistics.wilson(share.of(asked), len(asked), alpha) if asked else None


def _agreement(pairs: Sequence[Pair], sides: Sides) -> tuple[str, ...]:
    """How often both sides gave the same text: told, never judged."""
    texts = [(pair.baseline[0].text_sha256, pair.candidate[0].text_sha256) for pair in pairs]
    known = [(one, other) for one, other in texts if one and other]
    how = "greedy" if _greedy(sides) else "sampled"
    return (f"same text in {sum(one == other for one, other in known)} of {len(known)} pairs, {how}",) if known else ()


KIND = Kind(
    name="replay",
    max_age=timedelta(days=7),
    form=_FORMS.get,
    forms=_FORMS,
    example="replay.new_error_fraction",
    check=too_short,
    judge=_judge,
)
