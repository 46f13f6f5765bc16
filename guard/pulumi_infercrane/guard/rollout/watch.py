"""The watch over a revision that took over: a pure decision on what the router counted since.

Nothing is compared with a revision that no longer serves: the baseline is frozen, as the decision to promote saw it.
The deadline never takes the route back; it closes the watch as `accepted_unproven`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pulumi_infercrane.guard.decision import Action, Decision, check_service, record_head, rule_record, sealed, utc_time
from pulumi_infercrane.guard.errors import GuardError
from pulumi_infercrane.guard.evidence.window import LoadedWindow, Window
from pulumi_infercrane.guard.judging.proportions import count, failures, judge_share
from pulumi_infercrane.guard.judging.rule import Finding, Rule, Settings, unknown
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.rollout.losses import despite_losses
from pulumi_infercrane.guard.rollout.plan import WHOLE, PostPromotion
from pulumi_infercrane.guard.rollout.progress import leaves_active
from pulumi_infercrane.guard.rollout.question import Question, stack_problem, vouched_for
from pulumi_infercrane.guard.rollout.windows import (
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
from pulumi_infercrane.guard.times import format_duration, format_time, parse_time
from pulumi_infercrane.guard.trust.store import Trust
from pulumi_infercrane.guard.verdict import Judged, Verdict, in_order_of_weight, verdict_of, waiver_records

POST_PROMOTION = "post_promotion"
FRESH = timedelta(minutes=10)
"""How old the newest window may be."""

BURN_RATE = Rule("window.burn_rate", "window", hard=True, relative=False, bound=0.0, min_pass=1, min_compute=1)
_PAGE = ((timedelta(hours=1), 14.4), (timedelta(hours=6), 6.0))
"""How many times faster than allowed errors come over a time; both together take the route back."""
_SLOW = timedelta(days=3)

State = Literal["open", "proven", "accepted_unproven", "failed"]


@dataclass(frozen=True)
class _Watch:
    """Whom, since when, and where the way back leads."""

    settings: PostPromotion
    promoted: Mapping[str, Any]
    started: datetime
    as_of: datetime

    @property
    def candidate(self) -> str:
        return str(self.promoted["candidate"])

    @property
    def previous(self) -> str:
        """The revision the ledger names as active when this one took over; empty when there was none."""
        return str(self.promoted.get("expected_active", ""))

    @property
    def over(self) -> bool:
        return self.as_of - self.started >= self.settings.max_window

    def state(self, verdict: Verdict) -> State:
        if verdict == "insufficient_evidence":
            return "accepted_unproven" if self.over else "open"
        return "proven" if verdict == "promote" else "failed"

    @property
    def goes_back(self) -> bool:
        """Whether a fail moves the route by itself."""
        return self.settings.auto_rollback and bool(self.previous)


def post_promotion(
    policy: Policy,
    windows: Sequence[LoadedWindow],
    promoted: Mapping[str, Any],
    *,
    as_of: str,
    started_at: str = "",
    history: Sequence[Mapping[str, Any]] = (),
    previous_decision_id: str = "",
) -> Decision:
    """How the revision does that the decision record `promoted` let take over.

    `windows` are all windows since `started_at`, when the route carried the whole traffic (default: when it was
    decided), and those `promoted` used: they are the frozen baseline. `history` holds earlier decision records: those
    about this watch say how often it was looked at, and whether it has ended. On action `rollback` the record names the
    revision as `rollback_to`.

    Raises:
        PolicyError: when the policy is for another service.
        GuardError: when `promoted` moved no route, the watch has ended, the route moved on, or a time is none.
    """
    check_service(policy, promoted["service"])
    watch = _watch(policy, promoted, started_at or promoted["as_of"], as_of)
    earlier = [record for record in history if record.get("promoted") == promoted["decision_id"]]
    _check_open(earlier)
    _check_still_active(promoted, history)
    frozen_names = used_before([promoted] if "windows" in promoted else [])
    frozen = _windows(windows, frozen_names, policy.trust, promoted["stack"])
    question = _question(watch, windows, earlier, policy.trust)
    selection = select(question, [one for one in windows if one.sha256 not in frozen_names])
    look = look_at(selection, policy, earlier)
    judged, noticed = _judged(policy, watch, selection, look, frozen)
    verdict = verdict_of(judged)
    state = watch.state(verdict)
    return sealed(
        {
            **record_head(POST_PROMOTION, verdict, _action(watch, state), promoted["service"], promoted["stack"]),
            "as_of": format_time(watch.as_of),
            "candidate": watch.candidate,
            "baseline": watch.previous,
            "expected_active": watch.candidate,
            "expected_weights": {watch.candidate: WHOLE},
            "rollback_to": watch.previous if state == "failed" and watch.goes_back else "",
            "retain": watch.previous if watch.settings.retain_previous and _holds(watch, state) else "",
            "promoted": promoted["decision_id"],
            "started_at": format_time(watch.started),
            "state": state,
            "look": look.record(),
            "policy_digest": policy.digest,
            "signers": selection.signers if policy.trust else "",
            "prev_decision_id": previous_decision_id,
            "history": [record["decision_id"] for record in (promoted, *earlier)],
            "windows_digest": selection.digest,
            "windows": [piece.record() for piece in selection.pieces],
            "frozen": sorted(frozen),
            "rules": [*(rule_record(one) for one in judged), *(rule_record(one) for one in noticed)],
            "evidence": [],
            "waivers": waiver_records(
                replace(policy, waivers=waivers_for(policy, judged)), judged, watch.candidate, watch.as_of
            ),
            "notices": [*_state_notices(watch, state), *_notices(policy, watch, selection, noticed)],
            "reasons": reasons(judged, verdict),
            "first_reason": in_order_of_weight(judged)[0].short,
        }
    )


def _watch(policy: Policy, promoted: Mapping[str, Any], started_at: str, as_of: str) -> _Watch:
    if promoted["action"] != "flip" or promoted["decision_type"] == "rollback":
        name, kind = promoted["decision_id"][:19], promoted["decision_type"]
        raise GuardError(f"decision {name}… ({kind}, {promoted['action']}) let no new revision take over")
    started, now = utc_time(started_at), utc_time(as_of)
    if started < parse_time(promoted["as_of"]):
        raise GuardError(f"the watch starts at {started_at}, before the decision to promote")
    if now < started:
        raise GuardError(f"the watch starts at {started_at}, after the time of this decision")
    return _Watch(policy.post_promotion, promoted, started, now)


def _check_open(earlier: Sequence[Mapping[str, Any]]) -> None:
    for record in earlier:
        if record["state"] != "open" and record["action"] != "hold":
            raise GuardError(f"this watch ended at {record['as_of']}: {record['state']}")


def _check_still_active(promoted: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> None:
    """What took over may itself have been replaced since: then there is nothing left to watch."""
    names = [record["decision_id"] for record in history]
    later = history[names.index(promoted["decision_id"]) + 1 :] if promoted["decision_id"] in names else ()
    for record in later:
        same = (record["service"], record["stack"]) == (promoted["service"], promoted["stack"])
        if same and record["action"] == "flip" and not leaves_active(record, promoted):
            raise GuardError(f"the route moved on at {record['as_of']} (decision {record['decision_id'][:19]}…)")


def _windows(
    windows: Sequence[LoadedWindow], names: frozenset[str], trust: Trust | None, stack: str
) -> dict[str, Window]:
    named = [one for one in windows if one.sha256 in names and vouched_for(trust, one)[1] is None]
    read = {one.sha256: one.window for one in named if one.window}
    return {sha256: window for sha256, window in read.items() if stack_problem(trust, window, stack) is None}


def _question(
    watch: _Watch, windows: Sequence[LoadedWindow], earlier: Sequence[Mapping[str, Any]], trust: Trust | None
) -> Question:
    return Question(
        service=watch.promoted["service"],
        stack=watch.promoted["stack"],
        candidate=watch.candidate,
        weights={watch.candidate: WHOLE},
        started=watch.started,
        as_of=watch.as_of,
        at_least=watch.settings.window,
        fresh=FRESH,
        withdrawn=used_before(earlier) - {loaded.sha256 for loaded in windows},
        trust=trust,
    )


def _action(watch: _Watch, state: State) -> Action:
    if state in ("proven", "accepted_unproven"):
        return "keep"
    return "rollback" if state == "failed" and watch.goes_back else "hold"


def _holds(watch: _Watch, state: State) -> bool:
    """The way back must stay warm: the watch goes on, or somebody has to take it."""
    return state == "open" or (state == "failed" and not watch.goes_back)


# --- rules ------------------------------------------------------------------------------------------------------


def _judged(
    policy: Policy, watch: _Watch, selection: Selection, look: Look, frozen: Mapping[str, Window]
) -> tuple[list[Judged], list[Judged]]:
    """What counts, and what is only told."""
    settings = replace(policy.settings, alpha=look.alpha)
    facts = [
        Judged(OBSERVED, judge_observed(selection), required=True),
        Judged(RESTARTS, judge_restarts(selection), required=True),
    ]
    allowance = rule_of(policy, ERROR_FRACTION)
    errors = despite_losses(
        lambda windows: judge_all(
            [allowance], selection, (member_of(watch.candidate, windows, settings.slo), None), "", settings
        ),
        selection.disjoint,
    )
    burn = Judged(BURN_RATE, _burn_rate(watch, selection, allowance, settings), required=False)
    latencies = _latencies(policy, watch, selection, look, frozen)
    counts = watch.settings.relative_latency == "rollback"
    judged = settled([*facts, *errors, burn, *(latencies if counts else [])], policy, look, selection.question)
    return judged, [] if counts else [replace(one, required=False) for one in latencies]


def _latencies(
    policy: Policy, watch: _Watch, selection: Selection, look: Look, frozen: Mapping[str, Window]
) -> list[Judged]:
    """Against the baseline as the promoting decision saw it."""
    if look.stage == "early":
        return []
    in_order = sorted(frozen.values(), key=lambda window: window.started)
    settings = replace(policy.settings, alpha=look.alpha)
    baseline = member_of(watch.previous, in_order, settings.slo) if in_order else None
    missing = "the decision to promote rests on no traffic of this router, or its windows were not given"
    rules = [rule_of(policy, rule_id) for rule_id in LATENCIES]

    def judge(windows: Sequence[Window]) -> list[Judged]:
        live = member_of(watch.candidate, windows, settings.slo)
        return judge_all(rules, selection, (live, baseline), missing, settings)

    return despite_losses(judge, selection.disjoint)


def _burn_rate(watch: _Watch, selection: Selection, allowance: Rule, settings: Settings) -> Finding:
    """A fail when errors come too fast over the short time and over the long one."""
    found = [_burn(watch, selection, allowance, settings, *pair) for pair in _PAGE]
    detail = ", ".join(f"{format_duration(time)} {one.detail}" for (time, _), one in zip(_PAGE, found, strict=True))
    if all(one.outcome == "fail" for one in found):
        return replace(found[0], detail=detail, p=None, needs="")
    calm = next((one for one in found if one.outcome == "pass"), None)
    if calm:
        return replace(calm, detail=detail, p=None)
    return replace(next(one for one in found if one.outcome == "unknown"), detail=detail, p=None)


def _burn(
    watch: _Watch, selection: Selection, allowance: Rule, settings: Settings, time: timedelta, factor: float
) -> Finding:
    recent = _since(selection, watch.as_of - time)
    member = member_of(watch.candidate, recent, settings.slo)
    if member is None:
        return unknown("no_traffic", "no request")
    limit = round(min(1.0, factor * allowance.bound), 9)
    return replace(judge_share(BURN_RATE, [member], failures, limit, settings.alpha), evidence=())


def _since(selection: Selection, start: datetime) -> list[Window]:
    return [window for window in selection.disjoint if window.ended > start]


# --- notices ----------------------------------------------------------------------------------------------------


def _state_notices(watch: _Watch, state: State) -> list[str]:
    if state == "accepted_unproven":
        return [f"accepted_unproven: undecided for {format_duration(watch.settings.max_window)}, the watch ends"]
    if state != "failed" or watch.goes_back:
        return []
    if not watch.previous:
        return ["no revision served before this one: there is nothing to go back to"]
    return [f"auto_rollback is off: somebody has to decide about going back to {watch.previous}"]


def _notices(policy: Policy, watch: _Watch, selection: Selection, noticed: Sequence[Judged]) -> list[str]:
    told = [one.line for one in noticed if one.finding.outcome == "fail"]
    allowance = rule_of(policy, ERROR_FRACTION).bound
    member = member_of(watch.candidate, _since(selection, watch.as_of - _SLOW), policy.settings.slo)
    if member:
        failed, attempted = count([member], failures)
        if failed > allowance * attempted:
            days = format_duration(_SLOW)
            told.append(f"slow burn: {failed} of {attempted} requests failed within {days}, more than {allowance:g}")
    return told
