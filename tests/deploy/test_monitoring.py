"""The alert rules and the dashboard, judged by Prometheus' own tool, on metrics the router really has."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.telemetry.metrics import PREFIX, render
from tests import programs

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "router.json").read_text())


def promtool(*arguments: str, folder: Path) -> str:
    program = programs.prepare(("promtool",), ("prometheus",), "proxies")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dashboard_expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["expr"]


@pytest.mark.proxies
def test_the_alerts_go_off_when_they_should() -> None:
    assert "SUCCESS: 9 rules" in promtool("check", "rules", ALERTS.name, folder=ALERTS.parent)
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml", folder=ALERTS.parent)


@pytest.mark.proxies
def test_every_expression_of_the_dashboard_is_one(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel_{number}", "expr": expression.replace("$__rate_interval", "5m").replace("$service", "chat")}
        for number, expression in enumerate(dashboard_expressions())
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules" in promtool("check", "rules", "rules.yml", folder=tmp_path)


def test_every_metric_is_one_the_router_has() -> None:
    source = Path(render.__code__.co_filename).read_text()
    used = set(re.findall(rf"{PREFIX}(\w+)", ALERTS.read_text() + "\n".join(dashboard_expressions())))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert len(families) > 10
    assert [name for name in sorted(families) if f'"{name}"' not in source] == []


def test_every_outcome_is_one_the_router_books() -> None:
    text = ALERTS.read_text() + "\n".join(dashboard_expressions())
    named = {one for found in re.findall(r'outcome=~?"([\w|]+)"', text) for one in found.split("|")}
    assert named - {"dropped", "failed"} <= {str(outcome) for outcome in Outcome}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
