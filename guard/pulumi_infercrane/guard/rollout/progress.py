"""Where the decisions of a ledger leave a route: which canary step it is in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OpenStep:
    """A step that goes on, and the decision that says so. `weight` is the candidate's share in percent."""

    candidate: str
    baseline: str
    weight: int
    started_at: str
    """When this weight was decided on, or what an earlier decision about this step says."""
    decision: Mapping[str, Any]

    @property
    def is_new(self) -> bool:
        """Whether nothing was decided about this step yet."""
        return bool(self.decision.get("step", {}).get("weight") != self.weight)


def route_decision(records: Sequence[Mapping[str, Any]], service: str, stack: str) -> Mapping[str, Any] | None:
    """The newest decision about who gets the traffic of a service; the watch over who took over is none."""
    about = (one for one in reversed(records) if (one["service"], one["stack"]) == (service, stack))
    return next((one for one in about if one["decision_type"] != "post_promotion"), None)


def behind_active(records: Sequence[Mapping[str, Any]], service: str, stack: str) -> Mapping[str, Any] | None:
    """The decision by which the active revision of a service took over; None when there is none."""
    found: Mapping[str, Any] | None = None
    for one in records:
        moves = (one["service"], one["stack"], one["action"]) == (service, stack, "flip")
        if moves and not (found and leaves_active(one, found)):
            found = one
    return found


def leaves_active(later: Mapping[str, Any], promoted: Mapping[str, Any]) -> bool:
    """Whether a later decision only takes back a share: the active revision has all traffic again, and stays."""
    return bool(later["decision_type"] == "rollback" and later["candidate"] == promoted["candidate"])


def open_step(records: Sequence[Mapping[str, Any]], service: str, stack: str) -> OpenStep | None:
    """The step in which the newest decision about a service leaves its route; None when there is none."""
    newest = route_decision(records, service, stack)
    goes_on = newest is not None and newest["action"] in ("advance", "hold") and "weights" in newest
    return step_of(newest) if newest and goes_on else None


def step_of(decision: Mapping[str, Any]) -> OpenStep:
    """The step that a decision with weights, which lets it go on, leaves its route in."""
    weight, before = decision["weights"][decision["candidate"]], decision.get("step", {})
    started_at = before["started_at"] if weight == before.get("weight") else decision["as_of"]
    return OpenStep(decision["candidate"], decision["baseline"], weight, started_at, decision)
