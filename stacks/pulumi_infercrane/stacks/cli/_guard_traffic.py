"""`infercrane guard canary` and `infercrane guard watch`: decisions on the windows a router wrote."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from pulumi_infercrane.guard import (
    Decision,
    GuardError,
    Ledger,
    behind_active,
    canary_step,
    load_windows,
    open_step,
    post_promotion,
)
from pulumi_infercrane.guard.evidence.window import LoadedWindow
from pulumi_infercrane.guard.report import text
from pulumi_infercrane.guard.rollout.progress import route_decision
from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.stacks.cli._ledger import decisions_of
from pulumi_infercrane.stacks.cli._revisions import named
from pulumi_infercrane.stacks.cli._unusable import unusable_input
from pulumi_infercrane.stacks.errors import VERDICT_EXIT_CODES
from pulumi_infercrane.stacks.policy_file import read_policy

_File = click.Path(dir_okay=False, path_type=Path)
_NO_LEDGER = "the promotion before the first step is in it; to begin without one, make it an empty file"
_Existing = click.Path(exists=True, dir_okay=False, path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _options(command: _Command) -> _Command:
    """What both commands take."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the decision record instead of the report."),
        click.option("--record", is_flag=True, help="Append the decision to the ledger: looks are counted there."),
        click.option("--as-of", help="Time of the decision, like 2026-11-30T05:00:00Z; default: now."),
        click.option("--started-at", help="When the step, or the watch, began; default: what the ledger says."),
        click.option("--stack", default="default", show_default=True, help="Stack the route belongs to."),
        click.option("--service", help="Service; default: the policy's."),
        click.option("--ledger", type=_File, required=True, help="Ledger with earlier decisions; it must exist."),
        click.option("--policy", "policy_file", type=_Existing, required=True, help="Policy file."),
        click.argument("windows", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="WINDOWS..."),
    ):
        command = option(command)
    return command


@click.command("canary")
@_options
@click.option("--candidate", help="Revision digest or its beginning; default: what the ledger says.")
@click.option("--baseline", help="Revision digest or its beginning; default: what the ledger says.")
@click.option(
    "--weight",
    type=click.IntRange(1, 99),
    help="Percent of the traffic the candidate has; default: what the ledger says.",
)
@unusable_input
def canary(
    windows: tuple[Path, ...],
    policy_file: Path,
    ledger: Path,
    service: str | None,
    stack: str,
    started_at: str | None,
    as_of: str | None,
    record: bool,
    as_json: bool,
    candidate: str | None,
    baseline: str | None,
    weight: int | None,
) -> None:
    """Decide what becomes of a canary step: advance, flip, hold, or rollback.

    WINDOWS are infercrane.window/v1 files, or folders with *.window.json: give all since the step began. The ledger
    tells which step that is, after a promotion or the step before.

    \b
    Example:
      infercrane guard canary windows/ --policy policy.yaml --ledger ledger.jsonl --record
    """
    policy, past = read_policy(policy_file), _Past.of(ledger, stack)
    name = service or policy.service or "default"
    given = {"candidate": candidate, "baseline": baseline, "weight": weight, "started_at": started_at}
    loaded = load_windows(windows)
    step = past.step(name, given, loaded)
    decision = canary_step(
        policy,
        loaded,
        service=name,
        stack=stack,
        candidate=str(step["candidate"]),
        baseline=str(step["baseline"]),
        weight=int(step["weight"]),
        started_at=str(step["started_at"]),
        as_of=as_of or _now(),
        history=past.records,
        previous_decision_id=past.newest_id,
    )
    _finish(decision, Ledger(ledger) if record else None, as_json)


@click.command("watch")
@_options
@unusable_input
def watch(
    windows: tuple[Path, ...],
    policy_file: Path,
    ledger: Path,
    service: str | None,
    stack: str,
    started_at: str | None,
    as_of: str | None,
    record: bool,
    as_json: bool,
) -> None:
    """Decide how a revision does that took over: keep it, hold the way back open, or roll back.

    WINDOWS are infercrane.window/v1 files, or folders with *.window.json: give all since the flip, and those of the
    canary step that ended in it, which are the frozen baseline. The newest flip of the ledger is what is watched.

    \b
    Example:
      infercrane guard watch windows/ --policy policy.yaml --ledger ledger.jsonl --record
    """
    policy, past = read_policy(policy_file), _Past.of(ledger, stack)
    decision = post_promotion(
        policy,
        load_windows(windows),
        past.newest_flip(service or policy.service or "default"),
        started_at=started_at or "",
        as_of=as_of or _now(),
        history=past.records,
        previous_decision_id=past.newest_id,
    )
    _finish(decision, Ledger(ledger) if record else None, as_json)


@dataclass(frozen=True)
class _Past:
    """The decisions of a ledger, in order."""

    ledger: Path
    stack: str
    records: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, ledger: Path, stack: str) -> "_Past":
        return cls(ledger, stack, decisions_of(ledger, _NO_LEDGER))

    @property
    def newest_id(self) -> str:
        return str(self.records[-1]["decision_id"]) if self.records else ""

    def newest_flip(self, service: str) -> Mapping[str, Any]:
        """The decision that let the active revision take over."""
        found = behind_active(self.records, service, self.stack)
        if found is None:
            raise GuardError(f"{self.ledger}: no decision in it moved the route of service {service!r}")
        return found

    def step(self, service: str, given: Mapping[str, Any], windows: Sequence[LoadedWindow]) -> Mapping[str, Any]:
        """The step the newest decision leaves the route in, with what was `given` instead: nothing of it is missing."""
        found = open_step(self.records, service, self.stack)
        step = (vars(found) if found else {}) | {name: value for name, value in given.items() if value}
        missing = [f"--{name.replace('_', '-')}" for name in given if not step.get(name)]
        if missing:
            raise GuardError(f"{self._why_no_step(service)}: give {', '.join(missing)} of the step that is meant")
        known = {revision for one in windows if one.window for revision in one.window.bindings}
        sides = {
            name: named(str(step[name]), f"--{name}", known, "the windows have") for name in ("candidate", "baseline")
        }
        return step | sides

    def _why_no_step(self, service: str) -> str:
        newest = route_decision(self.records, service, self.stack)
        if newest is None:
            return f"{self.ledger}: no decision in it is about service {service!r} in stack {self.stack!r}"
        what = {"rollback": "took the share back", "flip": "let the candidate take over"}.get(newest["action"])
        return f"no step is open: the last decision {what}" if what else "no step is open"


def _now() -> str:
    return format_time(datetime.now(UTC))


def _finish(decision: Decision, ledger: Ledger | None, as_json: bool) -> None:
    if ledger:
        ledger.append(decision.record)
    click.echo(decision.canonical if as_json else text.render(decision.record))
    sys.exit(VERDICT_EXIT_CODES[decision.verdict])
