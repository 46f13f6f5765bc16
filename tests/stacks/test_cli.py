"""The command line: quick to start, clear when something is wrong."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from pulumi_infercrane.guard.collect import find, kinds
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.router.export import exporters
from pulumi_infercrane.stacks.cli import cli


def infercrane(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pulumi_infercrane", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_version_names_the_distribution() -> None:
    assert infercrane("--version").stdout.startswith("pulumi-infercrane, version ")


def newly_loaded(*modules: str) -> list[set[str]]:
    """What a process that imports these one after the other loads with each of them."""
    program = """
import importlib, json, sys
loaded = []
for name in sys.argv[1:]:
    before = set(sys.modules)
    importlib.import_module(name)
    loaded.append(sorted(set(sys.modules) - before))
print(json.dumps(loaded))
"""
    command = [sys.executable, "-c", program, *modules]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return [set(names) for names in json.loads(answer.stdout)]


def test_starting_loads_nothing_a_command_may_not_need() -> None:
    (loaded,) = newly_loaded("pulumi_infercrane.stacks.cli")
    assert loaded.isdisjoint({"pulumi", "grpc", "pydantic", "aiohttp", "yaml"})


def test_no_command_loads_the_pulumi_sdk() -> None:
    commands = ["up", "collect", "rollback", "override", "release", "guard", "doctor", "router"]
    loaded = newly_loaded(*(f"pulumi_infercrane.stacks.cli.{command}" for command in commands))
    assert {command for command, modules in zip(commands, loaded, strict=True) if "pulumi" in modules} == set()


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command with its words, groups included."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found, (*path, name))


def test_every_option_says_what_it_is() -> None:
    options = [(words, one) for words, command in _commands(cli) for one in command.params]
    assert len(options) > 50
    unsaid = [(words, one.name) for words, one in options if isinstance(one, click.Option) and not one.help]
    assert unsaid == []


def test_the_targets_of_an_export_are_those_there_are() -> None:
    told = CliRunner().invoke(cli, ["router", "export", "--help"]).output
    assert f"TARGET is {', '.join(exporters()[:-1])} or {exporters()[-1]}." in told


def test_the_kinds_of_an_import_are_those_there_are() -> None:
    told = " ".join(CliRunner().invoke(cli, ["guard", "import", "--help"]).output.split())
    assert f"Kind of evidence: {', '.join(known_kinds()[:-1])} or {known_kinds()[-1]}." in told


def test_defaults_told_of_a_collection_are_those_of_its_plans() -> None:
    told = {one.name: str(one.help) for one in dict(_commands(cli))["collect"].params if isinstance(one, click.Option)}
    defaults = [
        (field.name, field.default)
        for kind in kinds()
        for field in dataclasses.fields(find(kind).plan_type)
        if field.name in told and type(field.default) in (int, float, str) and field.default
    ]
    assert len(defaults) > 10
    for name, value in defaults:
        shown = value if isinstance(value, str) else f"{value:g}"
        assert re.search(rf"default: .*\b{shown}\b", told[name]), (name, value)


def test_every_command_says_what_it_does_and_ends_with_an_example() -> None:
    def check(path: list[str]) -> None:
        answer = CliRunner().invoke(cli, [*path, "--help"])
        assert answer.exit_code == 0
        assert "Example:" in answer.output, path

    for name in cli.list_commands(None):  # type: ignore[arg-type]
        check([name])
        for below in getattr(cli.get_command(None, name), "commands", {}):  # type: ignore[arg-type]
            check([name, below])


def test_outside_a_project_one_line_says_what_to_do(tmp_path: Path) -> None:
    answer = infercrane("up", "-s", "dev", cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: no Pulumi.yaml in ")
    assert "Traceback" not in answer.stderr


def test_an_engine_that_takes_it_for_a_plugin_is_told() -> None:
    answer = infercrane("127.0.0.1:4711")
    assert answer.returncode == 2
    assert "pulumi-resource-infercrane" in answer.stderr
