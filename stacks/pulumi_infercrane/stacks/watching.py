"""The watch over the revision that took over last: what the router counted since, decided on and written down."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pulumi_infercrane.guard import (
    Decision,
    Ledger,
    LoadedWindow,
    SigningKey,
    behind_active,
    load_windows,
    open_step,
    post_promotion,
    route_decision,
)
from pulumi_infercrane.guard.times import format_time, parse_time
from pulumi_infercrane.stacks import windows
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.errors import NothingToWatch
from pulumi_infercrane.stacks.operations.lock import stack_lock
from pulumi_infercrane.stacks.policy_file import read_policy
from pulumi_infercrane.stacks.project import Project


def look(project: Project, config: StackConfig, key: SigningKey | None = None) -> Decision:
    """Look once; the decision is in the ledger when this returns. It moves nothing. `key` signs the windows.

    Raises:
        NothingToWatch: no evidence let the active revision take over, or its watch has ended.
        StackBusy: an operation of the stack is running.
        RouterError: the router cannot be asked what it counted.
        GuardError: the policy or the ledger cannot be used, or the watch has ended.
    """
    ledger = Ledger(project.place.ledger)
    promoted_by([entry.decision for entry in ledger.entries()], config, project.qualified)  # else nothing is touched
    with stack_lock(project.operations, f"infercrane watch of {project.qualified}"):
        windows.take_all(project, config, key)
        records = [entry.decision for entry in ledger.entries()]
        promoted = promoted_by(records, config, project.qualified)
        decision = post_promotion(
            read_policy(config.policy, config.policy.name),
            [one for one in load_windows([project.place.windows]) if _concerns(one, promoted)],
            promoted,
            as_of=format_time(datetime.now(UTC)),
            history=records,
            previous_decision_id=records[-1]["decision_id"],
        )
        ledger.append(decision.record)
        return decision


def promoted_by(records: list[Mapping[str, Any]], config: StackConfig, stack: str) -> Mapping[str, Any]:
    """The decision behind the active revision.

    Raises:
        NothingToWatch: saying what serves, and why it is not watched.
    """
    found = behind_active(records, config.service, stack) or {}
    about = [one for one in records if found and one.get("promoted") == found["decision_id"]]
    ended = [one for one in about if one["state"] != "open" and one["action"] != "hold"]
    if found.get("decision_type") in ("promotion", "canary_step", "override") and not ended:
        return found
    told = (_what_serves(found, ended, config), _what_of_a_share(records, found, config, stack))
    raise NothingToWatch("; ".join(text for text in (*told, "there is nothing to watch") if text))


def _what_serves(found: Mapping[str, Any], ended: list[Mapping[str, Any]], config: StackConfig) -> str:
    if not found:
        return f"no decision let a revision of service {config.service} take over"
    name, since = config.name_of(found["candidate"]), found["as_of"]
    if ended:
        state = ended[-1]["state"]
        way_out = ": take it back with `infercrane rollback`" if state == "failed" else ""
        return f"{name} serves since {since}, and its watch ended at {ended[-1]['as_of']}: {state}{way_out}"
    if found["decision_type"] == "rollback":
        return f"{name} serves again since {since} ({found['reasons'][0]})"
    return f"{name} serves since {since}, as the first revision"


def _what_of_a_share(
    records: list[Mapping[str, Any]], found: Mapping[str, Any], config: StackConfig, stack: str
) -> str:
    """What became of a candidate with a share of the traffic, where the newest decision is about one."""
    newest, step = route_decision(records, config.service, stack), open_step(records, config.service, stack)
    if step:
        name = config.name_of(step.candidate)
        return f"{name} has {step.weight} % of the traffic, on which `infercrane up` decides"
    if newest is None or newest == found or newest["decision_type"] not in ("canary_step", "rollback"):
        return ""
    sharing = newest["candidate"] if newest["decision_type"] == "canary_step" else newest["baseline"]
    return f"the share of {config.name_of(sharing)} was taken back at {newest['as_of']} ({newest['reasons'][0]})"


def _concerns(loaded: LoadedWindow, promoted: Mapping[str, Any]) -> bool:
    """Since it took over; and those it took over on, which are the frozen baseline."""
    frozen = {window["sha256"] for window in promoted.get("windows", ())}
    window = loaded.window
    return window is None or loaded.sha256 in frozen or window.ended > parse_time(promoted["as_of"])
