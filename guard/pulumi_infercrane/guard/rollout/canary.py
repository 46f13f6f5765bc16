"""A canary step: a pure decision on what a router counted while it gave the candidate a share of the traffic.

The comparison is concurrent: both revisions in the same windows of the same router. A step ends well only on enough
traffic, badly only on a fail, and otherwise waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pulumi_infercrane.guard.decision import Action, Decision, check_service, record_head, rule_record, sealed, utc_time
from pulumi_infercrane.guard.errors import GuardError, PolicyError
from pulumi_infercrane.guard.evidence.window import LoadedWindow, Window
from pulumi_infercrane.guard.judging.rule import Rule
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.rollout.losses import despite_losses
from pulumi_infercrane.guard.rollout.plan import WHOLE, Canary, weights
from pulumi_infercrane.guard.rollout.question import Question
from pulumi_infercrane.guard.rollout.windows import (
    ATTAINMENT,
    ERROR_DIFFERENCE,
    ERROR_FRACTION,
    LATENCIES,
    OBSERVED,
    RESTARTS,
    Look,
    Selection,
    judge_all,
    judge_observed,
    judge_restarts,
    look_at,
    member_of,
    reasons,
    rule_of,
    select,
    settled,
    used_before,
    waivers_for,
)
from pulumi_infercrane.guard.times import format_duration, format_time
from pulumi_infercrane.guard.trust.store import Trust
from pulumi_infercrane.guard.verdict import (
    Judged,
    Verdict,
    in_order_of_weight,
    verdict_of,
    waived_until,
    waiver_records,
)

CANARY_STEP = "canary_step"


@dataclass(frozen=True)
class _Step:
    """The step that is judged, and where the verdict takes it."""

    canary: Canary
    weight: int
    started: datetime
    as_of: datetime

    @property
    def index(self) -> int:
        return self.canary.steps.index(self.weight)

    @property
    def timed_out(self) -> bool:
        return self.as_of - self.started >= self.canary.max_step

    def next_weight(self, verdict: Verdict) -> int:
        if verdict == "reject":
            return 0
        if verdict == "promote":
            return self.canary.steps[self.index + 1]
        back = self.timed_out and self.canary.on_timeout == "step_back" and self.index > 0
        return self.canary.steps[self.index - 1] if back else self.weight

    def notices(self, verdict: Verdict) -> list[str]:
        if verdict != "insufficient_evidence" or not self.timed_out:
            return []
        weight = self.next_weight(verdict)
        where = f"back to {weight} %" if weight < self.weight else f"held at {weight} %"
        return [f"undecided for {format_duration(self.canary.max_step)}: the candidate is {where}"]


def canary_step(
    policy: Policy,
    windows: Sequence[LoadedWindow],
    *,
    service: str,
    stack: str,
    candidate: str,
    baseline: str,
    weight: int,
    started_at: str,
    as_of: str,
    history: Sequence[Mapping[str, Any]] = (),
    previous_decision_id: str = "",
) -> Decision:
    """What becomes of the step in which the route gives `candidate` `weight` percent since `started_at`.

    `windows` are all windows since then; others do no harm. `history` holds earlier decision records: those about this
    step say how often it was looked at. The route must carry `expected_weights` of the record when it is given
    `weights`; both are percent by revision.

    Raises:
        PolicyError: when the policy is for another service, or has no canary with such a step.
        GuardError: when the step has ended, candidate and baseline are the same, or a time is none.
    """
    check_service(policy, service)
    step = _step(policy, weight, started_at, as_of)
    if candidate == baseline:
        raise GuardError(f"candidate and baseline are the same revision {candidate}: there is nothing to decide")
    about = {"service": service, "stack": stack, "candidate": candidate, "baseline": baseline}
    earlier = [record for record in history if _is_about(record, about, step)]
    _check_open(earlier, weight)
    expected = weights(candidate, baseline, weight)
    selection = select(_question(step, about, expected, windows, earlier, policy.trust), windows)
    look = look_at(selection, policy, earlier)
    judged = _judged(policy, selection, look, candidate, baseline)
    verdict = verdict_of(judged)
    next_weight = step.next_weight(verdict)
    return sealed(
        {
            **record_head(CANARY_STEP, verdict, _action(verdict, next_weight), service, stack),
            "as_of": format_time(step.as_of),
            "expires_at": _expires_at(policy, step, selection, judged, verdict),
            "candidate": candidate,
            "baseline": baseline,
            "expected_active": baseline,
            "expected_weights": expected,
            "weights": weights(candidate, baseline, next_weight),
            "step": {"weight": weight, "started_at": format_time(step.started), "steps": list(step.canary.steps)},
            "look": look.record(),
            "policy_digest": policy.digest,
            "signers": selection.signers if policy.trust else "",
            "prev_decision_id": previous_decision_id,
            "history": [record["decision_id"] for record in earlier],
            "windows_digest": selection.digest,
            "windows": [piece.record() for piece in selection.pieces],
            "rules": [rule_record(one) for one in judged],
            "evidence": [],
            "waivers": waiver_records(
                replace(policy, waivers=waivers_for(policy, judged)), judged, candidate, step.as_of
            ),
            "notices": step.notices(verdict),
            "reasons": reasons(judged, verdict),
            "first_reason": in_order_of_weight(judged)[0].short,
        }
    )


def _step(policy: Policy, weight: int, started_at: str, as_of: str) -> _Step:
    canary = policy.canary
    if canary is None:
        raise PolicyError(f"{policy.source}: the policy has no 'canary': a candidate takes over at once")
    if weight not in canary.steps[:-1]:
        known = ", ".join(str(step) for step in canary.steps[:-1])
        text = f"{policy.source}: {weight} % is no step that is judged; those are {known}"
        if weight < WHOLE:
            text += f": put {weight} back into canary.steps until this step has ended, or take the share back"
        raise PolicyError(text)
    started, now = utc_time(started_at), utc_time(as_of)
    if now < started:
        raise GuardError(f"the step starts at {started_at}, after the time of this decision")
    return _Step(canary, weight, started, now)


def _is_about(record: Mapping[str, Any], about: Mapping[str, str], step: _Step) -> bool:
    if record["decision_type"] != CANARY_STEP or any(record[name] != value for name, value in about.items()):
        return False
    known = record["step"]
    return bool(known["weight"] == step.weight and known["started_at"] == format_time(step.started))


def _check_open(earlier: Sequence[Mapping[str, Any]], weight: int) -> None:
    for record in earlier:
        after = record["weights"].get(record["candidate"], 0)
        if after != weight:
            name = record["decision_id"][:19]
            raise GuardError(f"this step ended at {record['as_of']} with {after} % (decision {name}…)")


def _question(
    step: _Step,
    about: Mapping[str, str],
    expected: Mapping[str, int],
    windows: Sequence[LoadedWindow],
    earlier: Sequence[Mapping[str, Any]],
    trust: Trust | None,
) -> Question:
    return Question(
        service=about["service"],
        stack=about["stack"],
        candidate=about["candidate"],
        weights=expected,
        started=step.started,
        as_of=step.as_of,
        at_least=step.canary.min_step,
        fresh=step.canary.min_step,
        withdrawn=used_before(earlier) - {loaded.sha256 for loaded in windows},
        trust=trust,
    )


def _judged(policy: Policy, selection: Selection, look: Look, candidate: str, baseline: str) -> list[Judged]:
    settings = replace(policy.settings, alpha=look.alpha)
    facts = [
        Judged(OBSERVED, judge_observed(selection), required=True),
        Judged(RESTARTS, judge_restarts(selection), required=True),
    ]
    rules = _rules(policy) if look.stage == "judgement" else [rule_of(policy, ERROR_FRACTION)]

    def judge(windows: Sequence[Window]) -> list[Judged]:
        sides = member_of(candidate, windows, settings.slo), member_of(baseline, windows, settings.slo)
        return judge_all(rules, selection, sides, "the baseline answered no request", settings)

    judged = despite_losses(judge, selection.disjoint)
    return settled([*facts, *judged], policy, look, selection.question)


def _rules(policy: Policy) -> list[Rule]:
    """What a step is judged by; attainment where the policy has that rule."""
    wanted = [ERROR_FRACTION, ERROR_DIFFERENCE, *LATENCIES]
    wanted += [rule.id for rule in policy.rules if rule.id == ATTAINMENT]
    return [rule_of(policy, rule_id) for rule_id in wanted]


def _action(verdict: Verdict, next_weight: int) -> Action:
    if verdict == "reject":
        return "rollback"
    if verdict == "promote":
        return "flip" if next_weight == WHOLE else "advance"
    return "hold"


def _expires_at(policy: Policy, step: _Step, selection: Selection, judged: Sequence[Judged], verdict: Verdict) -> str:
    """An advance is for the traffic that was seen; waiting and going back do not age."""
    if verdict != "promote":
        return ""
    ends = [selection.used[-1].ended + step.canary.max_step]
    names = {one.rule.id for one in judged if one.finding.outcome == "waived"}
    ends += waived_until(policy.waivers, names, selection.question.candidate, step.as_of)
    return format_time(min(ends))
