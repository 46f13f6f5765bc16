"""The journal: intent before effect, one unfinished operation per stack, events that cannot be changed."""

import sqlite3
from pathlib import Path

import pytest

from pulumi_infercrane.stacks.errors import StackBusy
from pulumi_infercrane.stacks.operations.journal import Journal, JournalError

STACK = "lab/dev"


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal(tmp_path / "ops" / "ops.sqlite")
    yield journal
    journal.close()


def finish(journal: Journal, op: str) -> None:
    for state in ("planning", "planned", "approved", "applying", "applied", "verifying", "succeeded"):
        journal.move(op, state)


def test_an_operation_is_written_down_with_its_intent(journal: Journal) -> None:
    op = journal.begin(STACK, "deploy", {"candidate": "sha256:2"})
    assert journal.get(op.id).intent == {"candidate": "sha256:2"}
    assert [event.state for event in journal.events(op.id)] == ["intended"]


def test_its_events_tell_the_whole_way(journal: Journal) -> None:
    op = journal.begin(STACK, "deploy", {})
    finish(journal, op.id)
    states = [event.state for event in journal.events(op.id)]
    assert states == ["intended", "planning", "planned", "approved", "applying", "applied", "verifying", "succeeded"]
    assert [event.seq for event in journal.events(op.id)] == list(range(1, 9))


def test_a_second_operation_waits_for_the_first(journal: Journal) -> None:
    first = journal.begin(STACK, "deploy", {})
    with pytest.raises(StackBusy, match=first.id):
        journal.begin(STACK, "deploy", {"candidate": "other"})
    journal.begin("lab/other", "deploy", {})


def test_the_same_intent_after_completion_is_a_new_operation(journal: Journal) -> None:
    first = journal.begin(STACK, "deploy", {})
    finish(journal, first.id)
    assert journal.begin(STACK, "deploy", {}).id != first.id


def test_only_edges_of_the_state_machine_can_be_taken(journal: Journal) -> None:
    op = journal.begin(STACK, "deploy", {})
    with pytest.raises(JournalError, match="from intended to applied"):
        journal.move(op.id, "applied")
    assert journal.get(op.id).state == "intended"
    assert len(journal.events(op.id)) == 1


def test_events_cannot_be_changed_or_deleted(journal: Journal, tmp_path: Path) -> None:
    journal.begin(STACK, "deploy", {})
    with sqlite3.connect(tmp_path / "ops" / "ops.sqlite") as db:
        for statement in ("update event set state = 'succeeded'", "delete from event"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                db.execute(statement)
    db.close()


def test_it_is_private_to_its_user(journal: Journal, tmp_path: Path) -> None:
    assert (tmp_path / "ops" / "ops.sqlite").stat().st_mode & 0o077 == 0


def test_a_journal_of_a_newer_version_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "ops.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(JournalError, match="newer version"):
        Journal(path)


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ops.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(JournalError, match=r"ops\.sqlite"):
        Journal(path)
