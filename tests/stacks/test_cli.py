"""The command line: quick to start, clear when something is wrong."""

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

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
