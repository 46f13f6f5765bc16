"""`infercrane guard …`: the Release Guard on files alone. Needs no stack, no network, no Pulumi."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard import (
    GuardError,
    bootstrap,
    decide,
    load_evidence,
)
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.report import RECORD_ALONE
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.guard.verification import archive_of
from pulumi_infercrane.stacks.cli import _guard_import, _guard_noise, _guard_traffic, _guard_trust
from pulumi_infercrane.stacks.cli._common import print_json
from pulumi_infercrane.stacks.cli._ledger import checked, decisions_of
from pulumi_infercrane.stacks.cli._reports import (
    Wanted,
    check_places,
    context_of,
    report_option,
    save,
    shown,
    write_reports,
)
from pulumi_infercrane.stacks.cli._revisions import revision_in
from pulumi_infercrane.stacks.cli._unusable import unusable_input
from pulumi_infercrane.stacks.cli._verifying import Verified, verify_ledger, verify_record
from pulumi_infercrane.stacks.errors import VERDICT_EXIT_CODES
from pulumi_infercrane.stacks.policy_file import read_policy

DIFFERENT = 1

_File = click.Path(dir_okay=False, path_type=Path)
_Folder = click.Path(file_okay=False, path_type=Path)


@click.group("guard")
def command() -> None:
    """Judge evidence files against a policy, offline.

    \b
    Exit codes of a verdict: 0 promote, 3 reject, 4 insufficient evidence, 2 unusable input, 1 internal error.

    \b
    Example:
      infercrane guard check --evidence evidence/ --policy policy.yaml
    """


command.add_command(_guard_trust.sign)
command.add_command(_guard_trust.keygen)
command.add_command(_guard_noise.noise)
command.add_command(_guard_import.command)
command.add_command(_guard_traffic.canary)
command.add_command(_guard_traffic.watch)


@command.command("check")
@click.option("--evidence", "folder", type=_Folder, required=True, help="Folder with *.evidence.json, searched below.")
@click.option("--policy", "policy_file", type=_File, required=True, help="Policy file.")
@click.option("--candidate", help="Revision digest or its beginning; not needed when there is only one candidate.")
@click.option("--baseline", help="Revision digest or its beginning; not needed when there is only one baseline.")
@click.option(
    "--bootstrap", "is_first", is_flag=True, help="The candidate is the first revision: only limits are judged."
)
@click.option("--service", help="Service; default: the policy's.")
@click.option(
    "--stack",
    default="default",
    show_default=True,
    help="Stack of the candidate: the policy may require other kinds in each.",
)
@click.option("--as-of", help="Time freshness is judged at, like 2026-11-30T05:00:00Z; default: now.")
@click.option("--ledger", type=_File, help="Ledger with earlier decisions; default: there were none.")
@click.option("--out", type=_File, help="Write the decision record here as well.")
@report_option
@click.option("--link", default="", help="Web address of this run's files, for reports that people read.")
@click.option("--json", "as_json", is_flag=True, help="Print the decision record; the same as --report json.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdict; unusable input still exits 2.")
@unusable_input
def check(
    folder: Path,
    policy_file: Path,
    candidate: str | None,
    baseline: str | None,
    is_first: bool,
    service: str | None,
    stack: str,
    as_of: str | None,
    ledger: Path | None,
    out: Path | None,
    reports: tuple[Wanted, ...],
    link: str,
    as_json: bool,
    exit_zero: bool,
) -> None:
    """Decide whether a candidate may take over, and say why.

    \b
    Example:
      infercrane guard check --evidence evidence/ --policy policy.yaml --report text --report junit:guard.xml
    """
    check_places(reports, as_json, (policy_file, ledger), out, folder)
    if is_first and baseline:
        raise click.UsageError("--baseline: a first revision (--bootstrap) is compared with nothing")
    policy, evidence = read_policy(policy_file), load_evidence(folder)
    asked = {
        "service": service or policy.service or "default",
        "stack": stack,
        "candidate": revision_in(evidence, folder, "candidate", candidate),
        "as_of": as_of or format_time(datetime.now(UTC)),
    }
    past = _history(ledger)
    if is_first:
        decision = bootstrap(policy, evidence, history=past, **asked)
    else:
        before = revision_in(evidence, folder, "baseline", baseline)
        decision = decide(policy, evidence, baseline=before, history=past, **asked)
    if out:
        save(out, decision.canonical)
    write_reports(decision.record, context_of(policy, policy_file, evidence, link), shown(reports, as_json))
    sys.exit(0 if exit_zero else VERDICT_EXIT_CODES[decision.verdict])


@command.command("explain")
@click.argument("file", type=_File)
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the decision record; the same as --report json.")
@unusable_input
def explain(file: Path, reports: tuple[Wanted, ...], as_json: bool) -> None:
    """Explain a decision from its record alone.

    \b
    Example:
      infercrane guard explain decision.json
    """
    check_places(reports, as_json, (file,))
    write_reports(_untouched(file), RECORD_ALONE, shown(reports, as_json))


@command.command("verify")
@click.argument("file", type=_File)
@click.option("--evidence", "folder", type=_Folder, required=True, help="Folder with the evidence that was judged.")
@click.option("--policy", "policy_file", type=_File, required=True, help="Policy file that was used.")
@click.option("--ledger", type=_File, help="Ledger with earlier decisions the record names.")
@click.option("--windows", type=_Folder, help="Folder with the *.window.json that decisions on traffic saw.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@unusable_input
def verify(
    file: Path, folder: Path, policy_file: Path, ledger: Path | None, windows: Path | None, as_json: bool
) -> None:
    """Compute a decision again and compare it byte by byte: exit 0 when equal, 1 when not.

    FILE is a decision record, or a whole ledger: then its chain is checked too, and every decision that was made
    with this policy and whose evidence is still there is computed again. None at all is no success.

    \b
    Example:
      infercrane guard verify decision.json --evidence evidence/ --policy policy.yaml
    """
    policy, archive = read_policy(policy_file), archive_of(folder, windows)
    if _is_ledger(file):
        verified = verify_ledger(file, policy, archive)
    else:
        record = _record(file)
        verified = Verified((verify_record(record, policy, archive, _history(ledger)),))
    if as_json:
        print_json(verified.document())
    else:
        click.echo("\n".join(verified.lines()))
    sys.exit(0 if verified.holds else DIFFERENT)


def _history(ledger: Path | None) -> list[Mapping[str, Any]]:
    return decisions_of(ledger, "before the first decision leave --ledger out") if ledger else []


def _record(file: Path) -> Mapping[str, Any]:
    try:
        return checked(parse(file.read_bytes()), file)
    except OSError as error:
        raise GuardError(f"{file}: the record cannot be read: {why(error)}") from error
    except Inadmissible as error:
        raise GuardError(f"{file}: not a decision record: {error.problem}") from error


def _untouched(file: Path) -> Mapping[str, Any]:
    """A record that still says what was decided: what is explained from it alone must not have been edited."""
    from pulumi_infercrane.guard.recorded import is_untouched

    record = _record(file)
    if not is_untouched(record):
        raise GuardError(f"{file}: the record was edited: its content does not give its decision_id")
    return record


def _is_ledger(file: Path) -> bool:
    try:
        with file.open("rb") as lines:
            value = parse(lines.readline().rstrip(b"\n"))
    except OSError as error:
        raise GuardError(f"{file}: cannot be read: {why(error)}") from error
    except Inadmissible:
        return file.suffix == ".jsonl"
    return isinstance(value, dict) and value.get("schema") == "infercrane.ledger/v1"
