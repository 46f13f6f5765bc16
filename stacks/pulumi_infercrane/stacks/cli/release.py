"""`infercrane release …`: what serves, and why."""

import asyncio
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard import GuardError, Ledger
from pulumi_infercrane.guard.report import Context, text
from pulumi_infercrane.router.control.client import ControlClient, RouterError
from pulumi_infercrane.stacks import watching
from pulumi_infercrane.stacks.cli._common import Chosen, choose, print_json, progress, stack_options
from pulumi_infercrane.stacks.cli._keys import open_key, sign_with_option
from pulumi_infercrane.stacks.errors import VERDICT_EXIT_CODES, ConfigError, RouterProblem, StackError
from pulumi_infercrane.stacks.release import Request, run


@click.group("release")
def command() -> None:
    """Show what serves, what was decided, and why.

    \b
    Example:
      infercrane release status -s prod
    """


@command.command("status")
@stack_options
def status(stack: str | None, directory: Path, as_json: bool) -> None:
    """Show the active revision as the router serves it, and the last decision.

    \b
    Example:
      infercrane release status -s prod --json
    """
    chosen = choose(directory, stack)
    document = asyncio.run(_status(chosen))
    if as_json:
        print_json(document)
        return
    click.echo(f"{document['service']}: {document['active'] or 'nothing'} serves (generation {document['generation']})")
    for name, revision in document["revisions"].items():
        share, busy = revision["share"], revision["inflight"]
        click.echo(f"  {name:16} {revision['state']:8} {share:3} %  {busy} in flight  {revision['url']}")
    decision = document["decision"]
    if decision:
        click.echo(f"last decision {decision['decision_id'][7:19]}: {decision['verdict']}, {decision['first_reason']}")
    if document["problem"]:
        click.echo(f"last decision unknown: {document['problem']}")


@command.command("history")
@stack_options
@click.option(
    "-n",
    "--last",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many of the last decisions to show.",
)
def history(stack: str | None, directory: Path, as_json: bool, last: int) -> None:
    """List the decisions in the ledger, oldest first; the hash chain is checked on the way.

    \b
    Example:
      infercrane release history -s prod -n 5
    """
    chosen = choose(directory, stack)
    decisions = list(_decisions(chosen))[-last:]
    if as_json:
        print_json(decisions)
        return
    if not decisions:
        progress(f"nothing was decided yet: {chosen.project.place.ledger} has no entry")
    for decision in decisions:
        candidate = chosen.config.name_of(decision["candidate"])
        click.echo(
            f"{decision['as_of']}  {decision['decision_id'][7:19]}  {decision['decision_type']:10}  "
            f"{candidate:12}  {decision['verdict']:22}  {decision['action']:8}  {decision['first_reason']}"
        )


@command.command("explain")
@stack_options
@click.argument("decision", required=False)
def explain(stack: str | None, directory: Path, as_json: bool, decision: str | None) -> None:
    """Explain a decision from its record: rules, bounds, evidence used and not used. Default: the last one.

    DECISION is an id or its beginning, as `release history` prints it.

    \b
    Example:
      infercrane release explain -s prod
    """
    chosen = choose(directory, stack)
    record = _find(chosen, decision)
    if as_json:
        print_json(record)
    else:
        click.echo(text.render(record, _named(chosen)))


@command.command("watch")
@stack_options
@sign_with_option("traffic windows")
def watch(
    stack: str | None, directory: Path, as_json: bool, key_file: Path | None, passphrase_from: str | None
) -> None:
    """Look at what the router counted since a candidate took over, and roll back when it does badly.

    Every look is a decision in the ledger. The policy says how long the watch lasts, what fails it, whether a fail
    moves the route by itself, and whether windows have to be signed.

    \b
    Exit codes: 0 the watch is over and the revision stays, 3 it failed: rolled back, or yours to roll back,
                4 the watch goes on,
                1 failed, 2 nothing to watch, 5 another operation is running.

    \b
    Example:
      infercrane release watch -s prod
    """
    chosen = choose(directory, stack)
    key = open_key(key_file, passphrase_from) if key_file else None
    decision = watching.look(chosen.project, chosen.config, key)
    if as_json:
        print_json(decision.record)
    else:
        click.echo(text.render(decision.record, _named(chosen)))
    if decision.action == "rollback":
        reason = f"the watch failed: {decision.reasons[0]}"
        request = Request(kind="rollback", rollback_to=decision.record["rollback_to"], reason=reason)
        result = run(chosen.project, chosen.config, request, progress)
        progress(f"rolled back to {chosen.config.name_of(result.active_after)}")
    sys.exit(VERDICT_EXIT_CODES[decision.verdict])


def _named(chosen: Chosen) -> Context:
    """Reports of a stack call revisions as it does."""
    return Context(names={spec.digest: spec.name for spec in chosen.config.revisions})


def _find(chosen: Chosen, decision: str | None) -> Mapping[str, Any]:
    found = [
        record
        for record in _decisions(chosen)
        if decision is None
        or record["decision_id"].removeprefix("sha256:").startswith(decision.removeprefix("sha256:"))
    ]
    if not found:
        ledger = chosen.project.place.ledger
        if decision is None:
            raise ConfigError(f"nothing was decided yet: {ledger} has no entry")
        raise ConfigError(f"no decision {decision} in {ledger}: see `infercrane release history`")
    return found[-1]


def _decisions(chosen: Chosen) -> Iterator[Mapping[str, Any]]:
    try:
        for entry in Ledger(chosen.project.place.ledger).entries():
            yield entry.decision
    except GuardError as error:
        raise StackError(str(error)) from error


async def _status(chosen: Chosen) -> dict[str, Any]:
    config = chosen.config
    try:
        async with ControlClient(chosen.project.place.control) as router:
            live = await router.get(config.service)
    except RouterError as error:
        raise RouterProblem(f"the router of {config.service} cannot be asked: {error}") from error
    decision, problem = _last_decision(chosen)
    return {
        "service": config.service,
        "active": config.name_of(live.active),
        "candidate": config.candidate,
        "generation": live.generation,
        "revisions": {
            entry["label"]: {
                "digest": digest,
                "state": "active" if digest == live.active else entry["state"],
                "share": live.weights.get(digest, 0),
                "inflight": live.inflight.get(digest, 0),
                "url": entry["upstreams"][0]["url"],
            }
            for digest, entry in live.table["revisions"].items()
        },
        "decision": decision,
        "problem": problem,
    }


def _last_decision(chosen: Chosen) -> tuple[Mapping[str, Any] | None, str]:
    """The last decision, or why it cannot be read: what serves must be shown even then."""
    try:
        return next(iter(deque(_decisions(chosen), maxlen=1)), None), ""
    except StackError as error:
        return None, str(error)
