"""`infercrane up`."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.stacks import release
from pulumi_infercrane.stacks.cli._common import Chosen, choose, print_json, progress, stack_options
from pulumi_infercrane.stacks.cli._keys import open_key, sign_with_option
from pulumi_infercrane.stacks.errors import VERDICT_EXIT_CODES


@click.command("up")
@stack_options
@sign_with_option("traffic windows")
def command(
    stack: str | None, directory: Path, as_json: bool, key_file: Path | None, passphrase_from: str | None
) -> None:
    """Deploy what the stack declares, and move the route if the evidence says promote.

    Intent is recorded first; then preview, guard, and `up` with exactly the plan that was decided on. Under every
    other verdict than promote the active revision keeps serving.

    Under a policy with canary steps a promotion gives the candidate the first share, and each run afterwards decides
    on the traffic since: the next share, the same, or none. Where the policy requires signatures, the windows of that
    traffic need one by a key it trusts with `window`: --sign-with.

    \b
    Exit codes: 0 promoted or nothing to decide, 3 reject, 4 insufficient evidence,
                1 failed, 2 wrong configuration, 5 another operation is running, 7 interrupted.

    \b
    Example:
      infercrane up -s prod
    """
    key = open_key(key_file, passphrase_from) if key_file else None
    run_and_report(choose(directory, stack), release.Request(sign_windows_with=key), as_json)


def run_and_report(chosen: Chosen, request: release.Request, as_json: bool) -> None:
    """Run an operation, print what came of it, and exit with the code of its verdict."""
    try:
        result = release.run(chosen.project, chosen.config, request, progress)
    except KeyboardInterrupt:
        progress("interrupted: the engine ended in good order, the route is as `infercrane release status` says")
        sys.exit(7)
    if as_json:
        print_json(named(result, chosen))
    else:
        _print(result, chosen)
    sys.exit(VERDICT_EXIT_CODES.get(result.verdict, 0))


def named(result: release.Result, chosen: Chosen) -> dict[str, Any]:
    """The result with revision names instead of digests."""
    document = asdict(result)
    for key in ("active_before", "active_after"):
        document[key] = chosen.config.name_of(document[key])
    document["weights"] = by_name(result.weights, chosen)
    return document | {"candidate": chosen.config.candidate}


def by_name(weights: Mapping[str, int], chosen: Chosen) -> dict[str, int]:
    """Percent by name of revision."""
    return {chosen.config.name_of(digest): share for digest, share in weights.items()}


def _print(result: release.Result, chosen: Chosen) -> None:
    before, after = (chosen.config.name_of(digest) for digest in (result.active_before, result.active_after))
    moved = f"moved from {before or 'nothing'} to" if before != after else "stays on"
    after = after or "nothing"
    click.echo(f"{chosen.config.service}: the route {moved} {after} (generation {result.generation})")
    for name, share in by_name(result.weights, chosen).items():
        click.echo(f"  {name} has {share} % of the traffic")
    if result.verdict and result.record.get("candidate") == chosen.config.candidate_digest:
        click.echo(f"candidate {chosen.config.candidate}: {result.verdict}")
    for reason in result.reasons:
        click.echo(f"  {reason}")
    if result.action == "hold":
        click.echo("  next: infercrane up again, when there was more traffic")
    elif result.verdict == "insufficient_evidence":
        click.echo("  next: infercrane collect, then infercrane up again")
    click.echo(f"operation {result.operation} succeeded" + ("" if result.changed else ", nothing had to change"))
