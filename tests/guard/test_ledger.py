"""The ledger keeps every decision, and notices when somebody changed the past."""

import json
import os

import pytest

from pulumi_infercrane.guard import Ledger, LedgerError
from pulumi_infercrane.guard.canonical import digest


def record(number):
    return {"schema": "infercrane.decision/v1", "decision_id": f"sha256:{number:064d}", "verdict": "promote"}


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for number in range(1, 4):
        ledger.append(record(number))
    return ledger


def lines_of(ledger):
    return ledger.path.read_bytes().splitlines(keepends=True)


def assert_broken(ledger, line, text):
    with pytest.raises(LedgerError, match=rf"ledger\.jsonl:{line}: the chain is broken: .*{text}"):
        list(ledger.entries())


def test_a_ledger_that_does_not_exist_is_empty(tmp_path):
    assert list(Ledger(tmp_path / "none").entries()) == []


def test_entries_come_back_in_order_and_chained(ledger):
    entries = list(ledger.entries())
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert [entry.decision for entry in entries] == [record(1), record(2), record(3)]
    assert [entry.prev for entry in entries] == ["", entries[0].entry, entries[1].entry]


def test_the_same_decision_is_not_written_twice_in_a_row(ledger):
    before = ledger.path.read_bytes()
    assert ledger.append(record(3)).seq == 3
    assert ledger.path.read_bytes() == before
    assert ledger.append(record(1)).seq == 4


def test_an_entry_is_on_disk_before_append_returns(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor).st_mode), fsync(descriptor))
    )
    Ledger(tmp_path / "ledger.jsonl").append(record(1))
    assert len(synced) == 2  # the file, and its folder because the file is new


def test_an_edited_entry_is_found(ledger):
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b"promote", b"reject!", 1))
    assert_broken(ledger, 1, "edited")


@pytest.mark.parametrize("seq", [2**53, 10**400], ids=["beyond doubles", "beyond everything"])
@pytest.mark.parametrize("entry", ["sha256:0", None], ids=["entry", "no entry"])
def test_a_line_without_a_canonical_form_is_no_entry(ledger, seq, entry):
    line = {**json.loads(lines_of(ledger)[0]), "seq": seq, "entry": entry}
    line = {key: value for key, value in line.items() if value is not None}
    ledger.path.write_text(json.dumps(line) + "\n")
    assert_broken(ledger, 1, "edited")


def test_an_edited_entry_with_a_new_digest_breaks_the_next_one(ledger):
    lines = lines_of(ledger)
    entry = json.loads(lines[0])
    entry["decision"]["verdict"] = "reject"
    entry["entry"] = digest({key: value for key, value in entry.items() if key != "entry"})
    ledger.path.write_bytes(b"".join([json.dumps(entry).encode() + b"\n", *lines[1:]]))
    assert_broken(ledger, 2, "missing or moved")


def test_a_missing_entry_is_found(ledger):
    lines = lines_of(ledger)
    ledger.path.write_bytes(lines[0] + lines[2])
    assert_broken(ledger, 2, "missing or moved")


def test_a_missing_beginning_is_found(ledger):
    ledger.path.write_bytes(b"".join(lines_of(ledger)[1:]))
    assert_broken(ledger, 1, "missing or moved")


def test_moved_entries_are_found(ledger):
    lines = lines_of(ledger)
    ledger.path.write_bytes(lines[1] + lines[0] + lines[2])
    assert_broken(ledger, 1, "missing or moved")


def test_an_interrupted_write_is_told_apart(ledger):
    ledger.path.write_bytes(ledger.path.read_bytes()[:-20])
    assert_broken(ledger, 3, "delete this last line")


@pytest.mark.parametrize("line", [b"{}\n", b"nonsense\n", b"[]\n", b'{"schema":"infercrane.ledger/v1"}\n'])
def test_foreign_lines_are_found(ledger, line):
    ledger.path.write_bytes(ledger.path.read_bytes() + line)
    assert_broken(ledger, 4, "backup")


def test_nothing_is_added_to_a_broken_chain(ledger):
    ledger.path.write_bytes(b"".join(lines_of(ledger)[1:]))
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerError):
        ledger.append(record(4))
    assert ledger.path.read_bytes() == before


def test_a_ledger_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(LedgerError, match="cannot be written"):
        Ledger(tmp_path / "missing" / "ledger.jsonl").append(record(1))


def test_a_decision_is_found_again_at_its_offset(ledger):
    appended = ledger.append(record(4))
    assert [ledger.decision_at(entry.offset) for entry in ledger.entries()] == [record(n) for n in range(1, 5)]
    assert ledger.decision_at(appended.offset) == record(4)


@pytest.mark.parametrize("offset", [1, 10_000])
def test_there_is_no_decision_elsewhere(ledger, offset):
    with pytest.raises(LedgerError, match="changed while it was read"):
        ledger.decision_at(offset)
