"""The command line: quick to start, clear when something is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pulumi_infercrane.stacks.cli import cli


def infercrane(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pulumi_infercrane", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_version_names_the_distribution() -> None:
    assert infercrane("--version").stdout.startswith("pulumi-infercrane, version ")


@pytest.mark.parametrize("heavy", ["pulumi", "grpc", "pydantic", "aiohttp", "yaml"])
def test_starting_loads_nothing_a_command_may_not_need(heavy: str) -> None:
    program = f"import sys; import pulumi_infercrane.stacks.cli; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("module", ["up", "collect", "rollback", "override", "release", "guard", "doctor", "router"])
def test_no_command_loads_the_pulumi_sdk(module: str) -> None:
    program = f"import sys; import pulumi_infercrane.stacks.cli.{module}; sys.exit('pulumi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


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
