"""`infercrane guard import`: the envelope round a file that a tool wrote."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard.evidence import record_lines
from pulumi_infercrane.guard.evidence.importing import Imported, ImportRefused, Said, import_file
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.stacks.cli._unusable import unusable_input

PARTS = ("samples", "details", "validation")

_File = click.Path(dir_okay=False, path_type=Path)
_Folder = click.Path(file_okay=False, path_type=Path)
_RUN = re.compile(r"(?P<group>[^:]+)(?::(?P<ordinal>\d+)/(?P<of>\d+))?")


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE [PART=FILE]...")
@click.option("--kind", required=True, help="Kind of evidence: benchmark, cost, quality, reliability or replay.")
@click.option(
    "--role",
    required=True,
    type=click.Choice(["candidate", "baseline"]),
    help="Side that was measured; the baseline is the active revision.",
)
@click.option(
    "--subject", "subject_file", type=_File, help="JSON file with the subject: the revision that was measured."
)
@click.option("-s", "--stack", help="Stack that declares the revision, instead of --subject.")
@click.option("--revision", help="Name of the revision in that stack.")
@click.option(
    "-C",
    "--directory",
    type=_Folder,
    default=Path(),
    help="Folder of the project, or one below it; default: the working directory.",
)
@click.option("--scenario", required=True, help="Id of the workload, or a JSON file with the whole scenario.")
@click.option("--window", help="START/END of the measurement, in UTC with Z; default: what the file says.")
@click.option("--tool", help="Tool that wrote the file; default: the only one whose reader takes it.")
@click.option("--tool-version", help="Its version; default: what the file says.")
@click.option("--planned", type=click.IntRange(0), help="Requests or items planned; default: what the file says.")
@click.option("--exit-code", type=int, help="Exit code of the tool; it is kept and shown, never judged.")
@click.option(
    "--run-group", help="GROUP or GROUP:2/3: both sides of a comparison have one group, repeats are numbered."
)
@click.option(
    "--select", "selects", multiple=True, metavar="KEY=VALUE", help="Which of several runs in the file, repeatable."
)
@click.option(
    "--fields", "fields_file", type=_File, help="JSON file with further fields: slo, probes, runner, supersedes."
)
@click.option("--out", type=_Folder, help="Folder of the envelope, at or above the files; default: the file's own.")
@click.option("--json", "as_json", is_flag=True, help="Print the envelope instead of what is read from it.")
@unusable_input
def command(
    files: tuple[str, ...],
    kind: str,
    role: str,
    subject_file: Path | None,
    stack: str | None,
    revision: str | None,
    directory: Path,
    scenario: str,
    window: str | None,
    tool: str | None,
    tool_version: str | None,
    planned: int | None,
    exit_code: int | None,
    run_group: str | None,
    selects: tuple[str, ...],
    fields_file: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the envelope that makes a tool's file evidence, and show what the guard reads from it.

    FILE is the tool's main result; a second one is named by its part: samples=, details= or validation=. Nothing is
    copied: the envelope is written beside the files, and never over another one.

    \b
    Example:
      infercrane guard import results.json samples=samples.jsonl --kind quality --role candidate \\
        -s prod --revision r2 --scenario gsm8k --select task=gsm8k
    """
    parts = _parts(files)
    start, end = _window(window)
    said = Said(
        kind=kind,
        role=role,
        subject=_object(subject_file) if subject_file else _declared(directory, stack, revision),
        scenario=_object(Path(scenario)) if scenario.endswith(".json") else {"id": scenario},
        tool=tool or "",
        tool_version=tool_version or "",
        started_at=start,
        ended_at=end,
        planned=planned,
        exit_code=exit_code,
        run=_run(run_group),
        select=dict(_pair(text, "--select") for text in selects),
        more=_object(fields_file) if fields_file else {},
    )
    _show(import_file(parts, out or parts["primary"].parent, said), as_json)


def _show(imported: Imported, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(imported.envelope, indent=2))
        return
    click.echo(str(imported.path))
    click.echo(f"  tool: {imported.tool}" + (", the only one whose reader takes the file" if imported.guessed else ""))
    for line in record_lines.lines(imported.record):
        click.echo(f"  {line}")


def _parts(files: Sequence[str]) -> Mapping[str, Path]:
    named = [text.partition("=") for text in files]
    parts = {part: Path(path) for part, equals, path in named if equals and part in PARTS}
    plain = [text for text, (part, _, _) in zip(files, named, strict=True) if part not in PARTS]
    if len(plain) != 1 or len(parts) + 1 < len(files):
        raise ImportRefused(f"one main FILE is needed, and each other file once as one of {'=, '.join(PARTS)}=")
    return {"primary": Path(plain[0]), **parts}


def _window(text: str | None) -> tuple[str, str]:
    start, slash, end = (text or "/").partition("/")
    if not slash or bool(start) != bool(end):
        raise ImportRefused(f"--window {text}: START/END is meant, like 2026-11-30T04:00:00Z/2026-11-30T04:05:00Z")
    return start, end


def _run(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    match = _RUN.fullmatch(text)
    if match is None:
        raise ImportRefused(f"--run-group {text}: GROUP or GROUP:2/3 is meant")
    return {"group": match["group"], "ordinal": int(match["ordinal"] or 1), "of": int(match["of"] or 1)}


def _pair(text: str, option: str) -> tuple[str, int | str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise ImportRefused(f"{option} {text}: KEY=VALUE is meant")
    return key, int(value) if value.isdecimal() else value


def _object(file: Path) -> Mapping[str, Any]:
    try:
        value = parse(file.read_bytes())
    except OSError as error:
        raise ImportRefused(f"{file}: cannot be read: {why(error)}") from error
    except Inadmissible as error:
        raise ImportRefused(f"{file}: {error.problem}") from error
    if not isinstance(value, dict):
        raise ImportRefused(f"{file}: a JSON object is meant")
    return value


def _declared(directory: Path, stack: str | None, revision: str | None) -> Mapping[str, Any]:
    """The subject of a declared revision. Imported here: without a stack nothing of it is needed."""
    if not revision:
        raise ImportRefused("say which revision was measured: --subject FILE, or -s STACK --revision NAME")
    from pulumi_infercrane.stacks.config import from_file
    from pulumi_infercrane.stacks.project import find_project

    return from_file(find_project(directory, stack)).revision(revision).subject
