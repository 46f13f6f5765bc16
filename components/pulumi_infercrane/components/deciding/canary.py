"""The canary of a service: what the ledger says was decided, beside what the router gives, and how it goes on. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pulumi_infercrane.components.deciding.declared import BEFORE_ALL_EVIDENCE, Declared
from pulumi_infercrane.components.deciding.outcomes import Outcome, carried, decided, kept
from pulumi_infercrane.guard import (
    Decision,
    LoadedWindow,
    OpenStep,
    Policy,
    canary_step,
    load_windows,
    rollback,
    route_decision,
)
from pulumi_infercrane.guard.canonical import digest_bytes
from pulumi_infercrane.guard.times import format_time, parse_time

WHOLE = 100
"""Percent of a route."""

_LOOK = ("verdict", "weights", "windows_digest", "policy_digest")
"""The same look at the same windows, with the same outcome: time alone is no reason for a new decision."""

Share = Mapping[str, int]
"""Percent by revision."""


@dataclass(frozen=True)
class Standing:
    """`none`: nobody has a share. `running`: the router gives what was decided. `pending`: it does not yet, for the run
    that decided was killed. `strayed`: it gives what nobody decided, or to whom nobody wants; see `revision` and `why`.
    """

    state: Literal["none", "running", "pending", "strayed"]
    decision: Mapping[str, Any] = field(default_factory=dict)
    """What was decided last; of `pending` and `running`."""
    revision: str = ""
    why: str = ""


def standing(declared: Declared, old: Mapping[str, Any]) -> Standing:
    """Where the canary is; `old` holds the shares the router gives, and the last decision that was carried out."""
    newest = route_decision(declared.records(), declared.service, declared.stack) or {}
    return compare(newest, declared, old["activeRevision"], old.get("weights") or {}, old.get("decisionId", ""))


def compare(newest: Mapping[str, Any], declared: Declared, active: str, live: Share, known: str) -> Standing:
    """`live` holds the shares beside the active revision's (empty: it has everything)."""
    carried, other = live or {active: WHOLE}, sharing(live, active)
    if other not in ("", declared.candidate):
        return Standing("strayed", revision=other, why="it is no longer the candidate")
    about_this = (newest.get("candidate"), newest.get("baseline")) == (declared.candidate, active)
    if not about_this or "weights" not in newest:
        return Standing("strayed", revision=other, why="no decision gives it one") if other else Standing("none")
    if carried == newest["weights"]:
        return Standing("running", newest) if other else Standing("none")
    expires_at = newest.get("expires_at", "")
    late = bool(declared.as_of and expires_at) and expires_at <= declared.as_of
    if known != newest["decision_id"] and carried == newest["expected_weights"] and not late:
        return Standing("pending", newest)
    why = "its canary was decided on too long ago" if late else "its share was changed by hand"
    return Standing("strayed", revision=declared.candidate, why=why)


def make_good(declared: Declared, policy: Policy, old: Mapping[str, Any], newest: Mapping[str, Any]) -> Outcome:
    """What a run decided that was killed before it told the router, unless the traffic since then fails."""
    since = _judge_since(declared, policy, old, newest)
    if since and since.fields.get("verdict") == "reject":
        return since
    decision = Decision(newest)
    if decision.action == "flip":
        return decided(decision, active=decision.record["candidate"], previous=old["activeRevision"], new=False)
    return kept(decision, old, new=False)


def _judge_since(
    declared: Declared, policy: Policy, old: Mapping[str, Any], newest: Mapping[str, Any]
) -> Outcome | None:
    """The step in which a decision upwards still finds the route, from that decision on; None where there is none."""
    judged = policy.canary.steps[:-1] if policy.canary else ()
    if not gives_more(newest) or _weight_before(newest) not in judged:
        return None
    return judge_anew(declared, policy, old, newest)


def judge_anew(declared: Declared, policy: Policy, old: Mapping[str, Any], newest: Mapping[str, Any]) -> Outcome:
    """The step that a decision which never reached the router has not ended, by the traffic since that decision."""
    candidate, baseline = newest["candidate"], newest["baseline"]
    return judge(declared, policy, old, OpenStep(candidate, baseline, _weight_before(newest), newest["as_of"], newest))


def gives_more(decision: Mapping[str, Any]) -> bool:
    """Whether a decision gives the candidate more traffic than it had."""
    return decision["action"] in ("advance", "flip")


def _weight_before(decision: Mapping[str, Any]) -> int:
    return int(decision["expected_weights"].get(decision["candidate"], 0))


def sharing(live: Share, active: str) -> str:
    """The revision that has a share beside the active one; empty when there is none."""
    return next((revision for revision in live if revision != active), "")


def judge(declared: Declared, policy: Policy, old: Mapping[str, Any], step: OpenStep) -> Outcome:
    """The candidate has a share: what the router counted since decides how it goes on."""
    carried_out = old.get("decisionId", "") == step.decision["decision_id"]
    since = old.get("weightsSince") or ""
    started_at = max(step.started_at, since) if carried_out and step.is_new else step.started_at
    windows = _windows_since(declared.windows, declared.service, started_at)
    decision = canary_step(
        policy,
        windows,
        service=declared.service,
        stack=declared.stack,
        candidate=step.candidate,
        baseline=step.baseline,
        weight=step.weight,
        started_at=started_at,
        as_of=declared.as_of or _newest_end(windows, started_at),
        history=declared.records(),
        previous_decision_id=old.get("decisionId", ""),
    )
    if decision.action == "flip":
        return decided(decision, active=step.candidate, previous=step.baseline)
    if carried_out and all(decision.record.get(name) == step.decision.get(name) for name in _LOOK):
        return Outcome(carried(old))
    return kept(decision, old)


def take_back(declared: Declared, old: Mapping[str, Any], revision: str, why: str) -> Outcome:
    """The active revision gets everything again; who had a share comes again only by new evidence."""
    decision = rollback(
        service=declared.service,
        stack=declared.stack,
        target=old["activeRevision"],
        active=revision,
        policy_digest=digest_bytes(declared.policy_text.encode()),
        as_of=declared.as_of or old.get("decidedAt") or BEFORE_ALL_EVIDENCE,
        reason=f"the share of {revision[:19]}… is taken back: {why}",
        previous_decision_id=old.get("decisionId", ""),
    )
    return kept(decision, old)


def _windows_since(folder: Path | None, service: str, started_at: str) -> tuple[LoadedWindow, ...]:
    """Those of a folder that tell something about a step, and those that cannot be read."""
    if folder is None or not folder.is_dir():
        return ()
    begin = parse_time(started_at)
    return tuple(one for one in load_windows([folder]) if _concerns(one, service, begin))


def _concerns(loaded: LoadedWindow, service: str, begin: datetime) -> bool:
    window = loaded.window
    return window is None or (window.service == service and window.ended > begin)


def _newest_end(windows: tuple[LoadedWindow, ...], started_at: str) -> str:
    """When the newest window ended: the time of a decision that is given none."""
    return max([started_at, *(format_time(one.window.ended) for one in windows if one.window)])
