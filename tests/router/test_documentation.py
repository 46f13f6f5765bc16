"""What docs/routing.md shows works."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs.generate import routing_page
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.routing.routes import Routes
from pulumi_infercrane.router.tables.calls import Flip
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import Health, Mirror
from pulumi_infercrane.router.telemetry.metrics import PREFIX, render
from tests.router.conftest import R1, R2, RouterProcess

PAGE = Path(__file__).parents[2] / "docs" / "routing.md"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def shown() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(block("json"))
    return document


def test_its_tables_are_those_of_today() -> None:
    assert routing_page(PAGE.read_text()) == PAGE.read_text()


def test_the_table_shown_is_read_and_its_figures_are_the_defaults() -> None:
    declared = read_declared(shown())
    health = declared.revisions[R1].health
    assert health == Health(probe_s=10, slow_start_s=30)
    assert declared.mirror == Mirror(R2, 10)
    assert set(shown()["revisions"][R1]["health"]) == set(vars(Health()))


async def test_the_steps_shown_are_steps_a_router_takes(
    start_process: Callable[..., RouterProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    process = start_process().wait_ready()
    async with process.client() as router:
        await router.put("chat", shown(), if_match=None)
        await router.flip("chat", Flip("", R1, "sha256:bootstrap"))
    names: dict[str, Any] = {}
    exec(block("python"), names)
    await names["step_by_step"](process.control, R1, R2)
    assert capsys.readouterr().out.splitlines() == [str({R1: 75, R2: 25}), str({R2: 100})]


def test_every_metric_shown_is_one_there_is() -> None:
    source = (Path(__file__).parents[2] / "router/pulumi_infercrane/router/telemetry/metrics.py").read_text()
    section = PAGE.read_text().partition("## Metrics")[2]
    names = re.findall(r"`((?:route|spilled|mirror|replica|not_renamed)\w*)`", section)
    assert len(names) == 11
    assert all(f'"{name}"' in source for name in names)


def test_every_metric_there_is_is_shown() -> None:
    text = render(Routes({}, {}), TrafficBook(lambda: 0.0))
    pages = PAGE.read_text() + (PAGE.parent / "monitoring.md").read_text()
    rows = " ".join(line.split(" | ")[0] for line in pages.splitlines() if line.startswith("| `"))
    names = re.findall(rf"# TYPE {PREFIX}(\w+)", text)
    assert len(names) > 30
    assert [name for name in names if f"`{name}`" not in rows] == []
