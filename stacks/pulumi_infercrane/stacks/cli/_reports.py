"""`--report FORMAT[:PATH]`: where each report of a decision goes."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard import EvidenceSet, GuardError, Policy
from pulumi_infercrane.guard.files import why, write_whole
from pulumi_infercrane.guard.report import Context, find_report, known_reports
from pulumi_infercrane.stacks.cli._common import progress

STANDARD_OUTPUT = "-"


@dataclass(frozen=True)
class Wanted:
    """One report that was asked for; without a path it goes to standard output."""

    format: str
    path: Path | None

    @property
    def whole_output(self) -> bool:
        """The text is a document: on standard output it must stand alone."""
        return self.path is None and self.format not in ("text", "github")


def report_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--report FORMAT[:PATH]`, repeatable."""
    return click.option(
        "--report",
        "reports",
        metavar="FORMAT[:PATH]",
        callback=_parse,
        multiple=True,
        help=f"Report instead of the text, repeatable: {', '.join(known_reports())}; without PATH on standard output.",
    )(command)


def _parse(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[Wanted, ...]:
    split = [value.partition(":") for value in values]
    unknown = next((form for form, _, _ in split if form not in known_reports()), None)
    if unknown is not None:
        raise click.BadParameter(f"no report {unknown!r}; there are {', '.join(known_reports())}", context, parameter)
    return tuple(Wanted(form, Path(path) if path not in ("", STANDARD_OUTPUT) else None) for form, _, path in split)


def shown(wanted: Sequence[Wanted], as_json: bool) -> tuple[Wanted, ...]:
    """The reports to write: those asked for, else the text."""
    return (*wanted, Wanted("json", None)) if as_json else tuple(wanted) or (Wanted("text", None),)


def check_places(
    wanted: Sequence[Wanted],
    as_json: bool,
    inputs: Iterable[Path | None],
    out: Path | None = None,
    evidence: Path | None = None,
) -> None:
    """Refuse reports that would overwrite one another or an input, then remove those of an earlier run.

    What stands there afterwards is about this run, or is not there: nothing a pipeline could take for success.

    Raises:
        click.UsageError: two documents on standard output, or a place that is taken or no place for a report.
        GuardError: an earlier report cannot be removed.
    """
    on_output = [one for one in wanted if one.path is None]
    if len(on_output) + as_json > 1 and (as_json or any(one.whole_output for one in on_output)):
        raise click.UsageError("two reports on standard output: give all but one a path, as in --report json:out.json")
    written = [path for path in [out, *(one.path for one in wanted)] if path]
    taken = [path.resolve() for path in [*inputs, *written] if path]
    for path in written:
        problem = _problem(path, taken, evidence)
        if problem:
            raise click.UsageError(f"{path} {problem}")
    for path in written:
        _remove(path)


def _problem(path: Path, taken: Sequence[Path], evidence: Path | None) -> str:
    """Why a report may not be written to a path; empty when it may."""
    if taken.count(path.resolve()) > 1:
        return "is named twice: a report would overwrite it"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return "is a link or no file: reports replace files (standard output is '-')"
    if evidence and path.resolve().is_relative_to(evidence.resolve()):
        return f"lies in the evidence folder {evidence}: reports have to be written elsewhere"
    return ""


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise GuardError(f"{path}: an earlier report cannot be removed: {why(error)}") from error


def context_of(policy: Policy, policy_file: Path, evidence: EvidenceSet, link: str) -> Context:
    """What reports show beside the record; the policy by its name below the working directory."""
    name = os.path.relpath(policy_file)
    shown = policy_file.as_posix() if name.startswith("..") else Path(name).as_posix()
    return Context(shown, {rule.id: rule.line for rule in policy.rules}, evidence, link)


def write_reports(record: Mapping[str, Any], context: Context, wanted: Sequence[Wanted]) -> None:
    """Render and write every report; texts for files the environment names are appended there.

    Raises:
        GuardError: when a file cannot be written.
    """
    for one in wanted:
        report = find_report(one.format)
        text = report.render(record, context)
        if one.path:
            save(one.path, text.encode())
        elif text:
            click.echo(text)
        for variable, render in report.files.items():
            _append(variable, one.format, render(record, context))


def _append(variable: str, form: str, text: str) -> None:
    place = os.environ.get(variable)
    if not place:
        progress(f"{form}: {variable} is not set: that part of the report is left out")
        return
    try:
        with Path(place).open("a", encoding="utf-8") as stream:
            stream.write(text + "\n")
    except OSError as error:
        raise GuardError(f"{place} ({variable}): cannot be written: {why(error)}") from error


def save(file: Path, text: bytes) -> None:
    """Write a report, whole or not at all.

    Raises:
        GuardError: when it cannot be written.
    """
    try:
        write_whole(file, text + b"\n")
    except OSError as error:
        raise GuardError(f"{file}: cannot be written: {why(error)}") from error
