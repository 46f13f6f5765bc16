"""Drills by the command line on real parts: the candidate is restarted and rehearsed, and what serves serves on."""

import pytest

from pulumi_infercrane.components.supervision.observing import Snapshot, observe
from pulumi_infercrane.guard import load_evidence
from tests.e2e.lab import STACK, Lab

POLICY = """\
schema: infercrane.policy/v1
service: chat
bootstrap: true
required_kinds: [reliability]
min_duration_s: 0
min_soak_s: 0
rules:
  - {id: reliability.cold_start_p95, class: H, limit: 10}
  - {id: reliability.rollback_drill, class: H, limit: 5}
  - {id: reliability.cut_streams, class: H, limit: 0}
"""

pytestmark = [pytest.mark.engine, pytest.mark.runtime]


def process_of(lab: Lab, name: str) -> Snapshot:
    (folder,) = (lab.place.root / "processes").glob(f"{name}-*")
    seen = observe(folder)
    assert seen is not None
    return seen


def test_drills_decide_a_release_and_leave_what_serves_alone(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    (lab.project / "policy.yaml").write_text(POLICY)
    lab.up()
    lab.declare({"r1": lab.revision(), "r2": lab.revision(max_concurrency=8, max_context_len=8192)}, "r2")
    before = lab.up(code=4)
    serves, candidate = process_of(lab, "r1"), process_of(lab, "r2")
    drills = "--cold-starts", "3", "--drain-streams", "8", "--drain-tokens", "900"
    lab.infercrane("collect", "-s", STACK, "--kind", "reliability", "--duration", "2s", *drills)
    (item,) = load_evidence(lab.evidence).items
    record = item.record
    assert len(record.cold_starts_s) == 3
    assert 0 < record.rollback_drill_s < 5
    assert 1 <= record.streams_completed_at_drain == record.streams_open_at_drain <= 8
    assert (record.crashes, record.restarts) == (0, 0)
    assert process_of(lab, "r1").pid == serves.pid
    assert process_of(lab, "r2").pid != candidate.pid
    assert process_of(lab, "r2").restarts == 0
    status = lab.status()
    assert (status["active"], status["generation"]) == ("r1", before["generation"])
    assert lab.up()["active_after"] == "r2"
