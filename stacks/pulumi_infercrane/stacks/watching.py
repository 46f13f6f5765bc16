"""The watch over the revision that took over last: what the router counted since, decided on and written down."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pulumi_infercrane.guard import Decision, Ledger, LoadedWindow, load_policy, load_windows, post_promotion
from pulumi_infercrane.guard.times import format_time, parse_time
from pulumi_infercrane.stacks import windows
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.errors import NothingToWatch
from pulumi_infercrane.stacks.operations.lock import stack_lock
from pulumi_infercrane.stacks.project import Project


def look(project: Project, config: StackConfig) -> Decision:
    """Look once; the decision is in the ledger when this returns. It moves nothing.

    Raises:
        NothingToWatch: no evidence let a revision of this stack take over.
        StackBusy: an operation of the stack is running.
        RouterError: the router cannot be asked what it counted.
        GuardError: the policy or the ledger cannot be used, or the watch has ended.
    """
    with stack_lock(project.operations, f"infercrane watch of {project.qualified}"):
        windows.take_all(project, config)
        ledger = Ledger(project.place.ledger)
        records = [entry.decision for entry in ledger.entries()]
        promoted = _promoted(records, config.service, project.qualified)
        decision = post_promotion(
            load_policy(config.policy.read_bytes(), config.policy.name),
            [one for one in load_windows([project.place.windows]) if _concerns(one, promoted)],
            promoted,
            as_of=format_time(datetime.now(UTC)),
            history=records,
            previous_decision_id=records[-1]["decision_id"],
        )
        ledger.append(decision.record)
        return decision


def _promoted(records: list[Mapping[str, Any]], service: str, stack: str) -> Mapping[str, Any]:
    """The decision behind the active revision."""
    about = [one for one in records if (one["service"], one["stack"]) == (service, stack)]
    newest: Mapping[str, Any] = next((one for one in reversed(about) if one["action"] == "flip"), {})
    if newest.get("decision_type") not in ("promotion", "canary_step", "override"):
        raise NothingToWatch(f"no candidate of service {service} took over last: there is nothing to watch")
    return newest


def _concerns(loaded: LoadedWindow, promoted: Mapping[str, Any]) -> bool:
    """Since it took over; and those it took over on, which are the frozen baseline."""
    frozen = {window["sha256"] for window in promoted.get("windows", ())}
    window = loaded.window
    return window is None or loaded.sha256 in frozen or window.ended > parse_time(promoted["as_of"])
