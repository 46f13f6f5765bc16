"""A window on disk: true as far as it goes, whatever ended the process that wrote it."""

import math
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pulumi_infercrane.router.counting.window_journal import Journal, Subject, read
from tests.router.conftest import R1, R2

START = datetime(2026, 11, 30, 4, tzinfo=UTC)
SUBJECT = Subject("chat", 7, "", {R1: 95, R2: 5}, (R1, R2))


def counts(*e2e_s: float, **failures: int) -> dict[str, object]:
    figures = {"e2e_s": list(e2e_s), "ttft_s": [math.nan] * len(e2e_s), "tpot_s": [math.nan] * len(e2e_s)}
    return {"counts": failures, "client_faults": {}, "tokens_known": True} | figures


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.begin(tmp_path / "chat" / "open.jsonl", SUBJECT, START)


def test_every_request_of_every_process_keeps_its_own_figures(journal: Journal) -> None:
    journal.add({R1: counts(0.1, 0.2), R2: counts(http_error=1)})
    journal.add({R1: counts(0.3), R2: counts(0.4, http_error=1)})
    journal.end(after(10))
    by_revision = {one["revision"]: one for one in read(journal.path).document()["bindings"]}
    assert by_revision[R1]["e2e_s"] == [0.1, 0.2, 0.3]
    assert (by_revision[R2]["e2e_s"], by_revision[R2]["failed_by_class"]) == ([0.4], {"http_error": 2})


def test_a_window_names_the_stack_of_its_route(tmp_path: Path) -> None:
    of_stack = Journal.begin(tmp_path / "open.jsonl", replace(SUBJECT, stack="shop/prod"), START)
    assert read(of_stack.path).document()["stack"] == "shop/prod"


def test_a_journal_that_was_begun_before_there_were_stacks_is_gone_on_with(journal: Journal) -> None:
    journal.path.write_bytes(journal.path.read_bytes().replace(b',"stack":""', b""))
    assert b"stack" not in journal.path.read_bytes()
    again = Journal.reopen(journal.path)
    again.end(after(10))
    assert "stack" not in read(journal.path).document()


def test_a_line_that_was_not_written_to_its_end_is_not_there(journal: Journal) -> None:
    journal.add({R1: counts(0.1)})
    journal.reach(after(2))
    whole = journal.path.stat().st_size
    journal.add({R1: counts(0.2)})
    os.truncate(journal.path, whole + 20)
    content = read(journal.path)
    assert (content.tallies[R1].completed, content.until, content.ended) == (1, after(2), None)
    again = Journal.reopen(journal.path)
    again.add({R1: counts(0.3)})
    assert read(journal.path).tallies[R1].e2e_s.tolist() == [0.1, 0.3]


def test_what_follows_rubbish_is_not_believed(journal: Journal) -> None:
    journal.reach(after(2))
    with journal.path.open("ab") as file:
        file.write(b"\0" * 40 + b'\n{"until":"2026-11-30T05:00:00.000Z"}\n')
    assert read(journal.path).until == after(2)


def test_a_window_without_traffic_does_not_grow(journal: Journal) -> None:
    journal.reach(after(2))
    size = journal.path.stat().st_size
    for seconds in range(4, 100, 2):
        journal.reach(after(seconds))
    assert (journal.path.stat().st_size, read(journal.path).until) == (size, after(98))


def test_a_full_disk_leaves_what_was_there(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.add({R1: counts(0.1)})
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:10], at))
    with pytest.raises(OSError, match="No space"):
        journal.add({R1: counts(0.2)})
    monkeypatch.undo()
    journal.add({R1: counts(0.3)})
    assert read(journal.path).tallies[R1].e2e_s.tolist() == [0.1, 0.3]


@pytest.mark.parametrize("data", [b"", b"\n", b"[]\n", b'{"until": 1}\n'])
def test_what_is_no_journal_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "open.jsonl").write_bytes(data)
    with pytest.raises(ValueError, match="no journal"):
        read(tmp_path / "open.jsonl")
