"""Evidence is written whole, never over older evidence, and never outside its folder."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pulumi_infercrane.guard.collect import CollectError, Target, find, kinds
from pulumi_infercrane.guard.collect.envelope import Findings, write_evidence
from pulumi_infercrane.guard.collect.load import Comparison, Side
from tests.guard.collect.scripted import target_of

COMPARISON = Comparison(
    candidate=Side(target_of("r2", "http://127.0.0.1:1")),
    baseline=Side(target_of("r1", "http://127.0.0.1:2")),
    started_at=datetime(2026, 11, 30, 9, 0, 0, tzinfo=UTC),
    ended_at=datetime(2026, 11, 30, 9, 2, 3, tzinfo=UTC),
)
FINDINGS = {role: Findings({}, ({"id": "1"},)) for role in ("candidate", "baseline")}


def write(out: Path) -> list[Path]:
    return write_evidence(out, kind="benchmark", comparison=COMPARISON, scenario={"id": "x"}, findings=FINDINGS)


def test_names_tell_kind_role_and_time(tmp_path: Path) -> None:
    write(tmp_path)
    assert sorted(path.name for path in (tmp_path / "r2").iterdir()) == [
        "benchmark-candidate-20261130T090203Z.benchmark.jsonl",
        "benchmark-candidate-20261130T090203Z.evidence.json",
    ]


def test_a_second_run_in_the_same_second_replaces_nothing(tmp_path: Path) -> None:
    first, second = write(tmp_path), write(tmp_path)
    assert not set(first) & set(second)
    assert all(path.exists() for path in first + second)


def test_a_write_that_breaks_off_leaves_nothing_that_looks_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def breaks_off(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CollectError, match="evidence cannot be written"):
        write(tmp_path / "file")


@pytest.mark.parametrize("label", ["../r2", "a/b", "", ".hidden", "a b"])
def test_a_label_is_a_plain_name(label: str) -> None:
    with pytest.raises(CollectError, match="cannot name a folder"):
        target_of(label, "http://127.0.0.1:1")


def test_a_subject_belongs_to_its_revision() -> None:
    other = target_of("r1", "http://127.0.0.1:1")
    with pytest.raises(CollectError, match="the subject is not the one of revision"):
        Target("r2", "sha256:" + "0" * 64, other.subject, other.base_url, "chat")


def test_collectors_are_found_by_kind() -> None:
    assert kinds() == ("benchmark", "cost", "quality", "reliability", "replay")
    with pytest.raises(
        CollectError, match="'tarot' cannot be measured, only benchmark, cost, quality, reliability, replay"
    ):
        find("tarot")


def test_a_plan_takes_what_it_knows() -> None:
    plan = find("benchmark").plan({"requests": 5, "tasks": Path("x"), "limit": 3})
    assert (plan.requests, plan.concurrency) == (5, 4)
    with pytest.raises(CollectError, match="quality: tasks must be given"):
        find("quality").plan({"requests": 5})
    with pytest.raises(CollectError, match="must be positive"):
        find("benchmark").plan({"requests": 0})
