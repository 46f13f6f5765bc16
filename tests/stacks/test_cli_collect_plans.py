"""`infercrane collect`: which kinds are measured, and what their plans are made of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard.collect import CollectError, find, kinds
from pulumi_infercrane.guard.collect.handles import Handles
from pulumi_infercrane.stacks.cli import collect as module
from pulumi_infercrane.stacks.cli.collect import _measurable, command


def parsed(*arguments: str) -> dict[str, object]:
    """What was given, as it reaches the plans."""
    context = command.make_context("collect", list(arguments))
    return {name: value for name, value in context.params.items() if value is not None}


def plan(kind: str, *arguments: str, **more: Any) -> Any:
    return find(kind).plan(parsed(*arguments) | more)


async def nothing(*_: Any) -> Any:
    """A handle that is not used."""


def test_every_kind_that_enough_is_given_for_is_measured() -> None:
    assert _measurable({}) == ["benchmark"]
    assert _measurable(parsed("--tasks", "t.yaml", "--recording", "r.jsonl")) == ["benchmark", "quality", "replay"]
    everything = "--tasks", "t", "--recording", "r", "--prices", "p", "--duration", "30m"
    assert tuple(_measurable(parsed(*everything))) == kinds()


def test_options_reach_the_plans_by_their_names() -> None:
    replay = plan("replay", "--recording", "r", "--requests", "7", "--greedy", "--similarity", "token_ratio")
    assert (replay.recording, replay.requests, replay.greedy) == (Path("r"), 7, True)
    assert plan("replay", "--recording", "r").greedy is False
    cost = plan("cost", "--prices", "p", "--max-cost", "2.5", "--slo-ttft", "0.5", "--slo-tpot", "0.05", "--rate", "3")
    assert (cost.prices, cost.max_cost, cost.slo) == (Path("p"), 2.5, {"ttft_s": 0.5, "tpot_s": 0.05})
    assert cost.rate == 3.0
    assert plan("reliability", "--duration", "30m").duration_s == 1800
    assert plan("quality", "--tasks", "t", "--items", "3").limit == 3
    drills = "--duration", "30m", "--cold-starts", "3", "--drain-streams", "8", "--drain-tokens", "2000"
    asked = plan("reliability", *drills, handles=Handles(restart=nothing, rehearse=nothing))
    assert (asked.cold_starts, asked.drain_streams, asked.drain_tokens) == (3, 8, 2000)


def test_every_option_is_known_to_a_plan() -> None:
    known = {name for kind in kinds() for name in find(kind).plan_type.__dataclass_fields__}
    own = {"stack", "directory", "as_json", "chosen_kinds", "key_file", "passphrase_from", "help"}
    assert {parameter.name for parameter in command.params} - own <= known


def test_what_a_kind_lacks_is_named_by_its_option() -> None:
    for kind, option in (("reliability", "--duration"), ("quality", "--tasks"), ("cost", "--prices")):
        with pytest.raises(CollectError, match=f"^--kind {kind} needs {option}$"):
            module._plan(kind, {})


def test_a_plan_that_makes_no_sense_names_its_kind() -> None:
    with pytest.raises(CollectError, match="benchmark: max_cost needs a price file"):
        plan("benchmark", "--max-cost", "1")
    with pytest.raises(click.BadParameter, match="'soon' is not a duration like 7d, 24h, 30m or 90s"):
        parsed("--duration", "soon")


def test_an_interrupt_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measure(*_: object, plan: str, **__: object) -> list[Path]:
        if plan == "second":
            raise KeyboardInterrupt
        return [tmp_path / plan]

    monkeypatch.setattr(module, "find", lambda kind: SimpleNamespace(collect=measure))
    found = module._collect([("a", "first"), ("b", "second"), ("c", "third")], None, None, tmp_path)
    assert next(found) == tmp_path / "first"
    with pytest.raises(KeyboardInterrupt):
        next(found)
    assert "the same command with --kind b --kind c goes on behind the last finished block" in capsys.readouterr().err


def test_help_is_grouped() -> None:
    shown = CliRunner().invoke(command, ["--help"]).output
    headings = [line[:-1] for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    drills = "Drills on the candidate, after its soak (reliability)"
    assert headings == ["What a kind needs", "Load", "Replay and cost", drills, "Bounds", "Options"]
