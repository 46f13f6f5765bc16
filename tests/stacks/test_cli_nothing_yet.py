"""A stack that was never deployed: commands that only look say so, and leave nothing behind."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pulumi_infercrane.stacks.cli import cli
from pulumi_infercrane.stacks.errors import ConfigError, NothingToWatch, RouterProblem
from tests.stacks.test_config import configured


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory, which is not there."""
    configured(tmp_path)
    monkeypatch.setenv("INFERCRANE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_history_without_decisions_says_so_beside_the_output(state: Path) -> None:
    result = run("release", "history")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"nothing was decided yet: {state}/dev@lab/ledger.jsonl has no entry\n"
    assert run("release", "history", "--json").stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((), "nothing was decided yet: {ledger} has no entry"), (("0ab",), "no decision 0ab in {ledger}")],
)
def test_an_explanation_of_nothing_is_refused(state: Path, arguments: tuple[str, ...], says: str) -> None:
    problem = run("release", "explain", *arguments).exception
    assert isinstance(problem, ConfigError)
    assert str(problem).startswith(says.format(ledger=f"{state}/dev@lab/ledger.jsonl"))


def test_looking_leaves_no_folder_behind(state: Path) -> None:
    assert isinstance(run("release", "watch").exception, NothingToWatch)
    assert isinstance(run("release", "status").exception, RouterProblem)
    assert "no operation yet" in run("doctor").output
    run("release", "history")
    run("release", "explain")
    assert not state.exists()
