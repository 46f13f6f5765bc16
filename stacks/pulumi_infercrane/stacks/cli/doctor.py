"""`infercrane doctor`."""

import sys
from dataclasses import asdict
from pathlib import Path

import click

from pulumi_infercrane.stacks import doctor
from pulumi_infercrane.stacks.cli._common import choose, print_json, stack_options


@click.command("doctor")
@stack_options
def command(stack: str | None, directory: Path, as_json: bool) -> None:
    """Check the installation, and whether engine, router, ledger and journal agree. Changes nothing.

    Exit code 1 when there is a problem, 0 when there are none or only warnings.

    \b
    Example:
      infercrane doctor -s prod
    """
    chosen = choose(directory, stack)
    findings = doctor.examine(chosen.project, chosen.config)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(f"{finding.state:8} {finding.check:10} {finding.detail}")
            if finding.remedy:
                click.echo(f"{'':19} {finding.remedy}")
    sys.exit(1 if any(finding.state == "problem" for finding in findings) else 0)
