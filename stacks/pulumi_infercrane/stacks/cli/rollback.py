"""`infercrane rollback`."""

from pathlib import Path

import click

from pulumi_infercrane.stacks import release
from pulumi_infercrane.stacks.cli._common import choose, stack_options
from pulumi_infercrane.stacks.cli.up import run_and_report


@click.command("rollback")
@stack_options
@click.option("--reason", required=True, help="Why; it is kept in the ledger.")
@click.option("--to", "target", help="Revision to go back to; only the previous one is possible, and the default.")
def command(stack: str | None, directory: Path, as_json: bool, reason: str, target: str | None) -> None:
    """Move the route back to the previous revision, which is still running: a route change, not a redeployment.

    No evidence is needed. The revision that is rolled back needs new evidence before it can be promoted again.

    \b
    Example:
      infercrane rollback -s prod --reason "answers cut short since noon"
    """
    chosen = choose(directory, stack)
    to = chosen.config.revision(target).digest if target else "previous"
    run_and_report(chosen, release.Request(kind="rollback", rollback_to=to, reason=reason), as_json)
