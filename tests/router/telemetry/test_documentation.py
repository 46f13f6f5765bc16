"""What docs/monitoring.md lists is what there is."""

import json
import re
from pathlib import Path

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.serving.workers import crew
from pulumi_infercrane.router.telemetry import metrics
from pulumi_infercrane.router.telemetry.access_log import line_of
from pulumi_infercrane.router.telemetry.requests import Asked, Ended
from pulumi_infercrane.router.telemetry.trace_context import Span

PAGE = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text()


def names(section: str) -> list[str]:
    """The first column of a section's table."""
    table = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_outcomes() -> None:
    assert sorted(names("Outcomes")) == sorted(Outcome)


def test_fields_of_the_access_log() -> None:
    asked = Asked(lambda ended: None, 0, b"id", b"POST", b"/path", b"::1", "chat", "ci", Span(1, 2, 0, True), 0.1)
    ended = Ended(asked, Outcome.COMPLETE, 200, "reason", "chat", "r", "u", 1, 0.1, 1, 1, "usage")
    assert sorted(names("Access log")) == sorted(json.loads(line_of(ended)))


def test_metrics() -> None:
    source = Path(metrics.__file__).read_text() + Path(crew.__file__).read_text()
    assert [name for name in names("Metrics") if not re.search(rf'["}}]{name}[{{"]', source)] == []
