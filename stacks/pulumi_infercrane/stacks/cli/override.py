"""`infercrane override`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from pulumi_infercrane.guard import GuardError, sign_override
from pulumi_infercrane.guard.times import parse_duration, parse_time
from pulumi_infercrane.stacks import release
from pulumi_infercrane.stacks.cli._common import choose, stack_options
from pulumi_infercrane.stacks.cli._keys import key_option, open_key
from pulumi_infercrane.stacks.cli.up import run_and_report


@click.command("override")
@stack_options
@click.option("--to", "target", required=True, help="Declared revision that shall serve.")
@click.option("--reason", required=True, help="Why; it is kept in the ledger.")
@click.option("--owner", required=True, help="Who answers for it.")
@click.option(
    "--expires",
    required=True,
    help="How long the order may be used, like 30m or 4h, or until when, like 2026-11-30T05:00:00Z.",
)
@key_option("--key")
def command(
    stack: str | None,
    directory: Path,
    as_json: bool,
    target: str,
    reason: str,
    owner: str,
    expires: str,
    key_file: Path,
    passphrase_from: str | None,
) -> None:
    """Move the route without evidence, by an order that is signed, used once, and kept in the ledger.

    The policy must trust the key with `override`. The target must be declared and run, as always; the revision that
    serves now stays warm for a rollback.

    \b
    Example:
      infercrane override -s prod --to r3 --owner ann --reason "r2 leaks; no time to measure" --expires 1h --key ann.pem
    """
    chosen = choose(directory, stack)
    now = datetime.now(UTC).replace(microsecond=0)
    order = sign_override(
        open_key(key_file, passphrase_from),
        service=chosen.config.service,
        stack=chosen.project.qualified,
        target=chosen.config.revision(target).digest,
        owner=owner,
        reason=reason,
        issued_at=now,
        expires_at=_end(expires, now),
    )
    run_and_report(chosen, release.Request(kind="override", override=order), as_json)


def _end(expires: str, now: datetime) -> datetime:
    try:
        return parse_time(expires) if expires.endswith("Z") else now + parse_duration(expires)
    except ValueError as error:
        raise GuardError(f"--expires: {error}") from error
