"""A folder is read as it is found: what is bad stays visible beside what is good, and never counts."""

import json
import os

import pytest

from pulumi_infercrane.guard import EvidenceError, EvidenceReference, load_evidence, newest_end, reference_folder
from pulumi_infercrane.guard.evidence import folder as module


def only(folder, references=None):
    (item,) = load_evidence(folder.root, references).items
    return item


def test_envelopes_are_found_at_any_depth(folder, new_folder):
    folder.benchmark("candidate")
    below = new_folder()
    below.root = folder.root / "r2" / "today"
    below.quality("candidate")
    assert [item.path for item in load_evidence(folder.root).items] == [
        "benchmark-candidate.evidence.json",
        "r2/today/quality-candidate.evidence.json",
    ]
    assert load_evidence(folder.root).problem_lines == ()


def test_an_empty_folder_is_an_empty_set(tmp_path):
    assert load_evidence(tmp_path).items == ()
    assert newest_end(load_evidence(tmp_path)) is None


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        load_evidence(tmp_path / "none")
    with pytest.raises(EvidenceError, match="cannot be read"):
        reference_folder(tmp_path / "none")
    with pytest.raises(EvidenceError, match="no such evidence folder"):
        load_evidence(tmp_path / "none", [EvidenceReference("a.evidence.json", "sha256:" + "0" * 64)])


def test_no_references_need_no_folder(tmp_path):
    assert load_evidence(tmp_path / "none", []).items == ()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b'{"schema": NaN}', "non_finite"),
        (b'{"schema": "x", "schema": "y"}', "duplicate_key"),
        (b"[" * 50_000, "bomb"),
        (b'"' + b"x" * (module.MAX_ENVELOPE_BYTES + 1) + b'"', "oversize"),
    ],
)
def test_an_unreadable_envelope_is_kept_as_a_problem(folder, content, code):
    folder.root.mkdir()
    (folder.root / "x.evidence.json").write_bytes(content)
    assert only(folder).problem.code == code
    assert only(folder).envelope is None


def test_a_file_changed_after_measuring_is_tampered(folder):
    folder.benchmark("candidate")
    raw = folder.root / "benchmark-candidate.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes().replace(b'"http_error"', b'"complete"') + b"\n")
    assert only(folder).problem.code == "tampered"
    assert only(folder).envelope is not None  # it still says what it claims to be about


@pytest.mark.parametrize(("requests", "code"), [(10**12, ""), (10**12 + 8, "bad_value"), (2**53 - 8, "bad_value")])
def test_a_run_of_more_requests_than_can_be_judged_is_refused(folder, summary_run, requests, code):
    """Its bounds would take seconds and be wrong; no tool sends so many."""
    folder.summary("candidate", summary_run(n=requests, failed=requests // 8))
    (item,) = load_evidence(folder.root).items
    assert (item.problem.code if item.problem else "") == code, item.problem


def test_a_truncated_file_is_tampered(folder):
    folder.benchmark("candidate")
    raw = folder.root / "benchmark-candidate.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes()[:-100])
    assert only(folder).problem.code == "tampered"


def test_a_file_that_is_gone_is_tampered(folder):
    folder.benchmark("candidate")
    (folder.root / "benchmark-candidate.benchmark.jsonl").unlink()
    assert str(only(folder).problem) == "tampered: benchmark-candidate.benchmark.jsonl is gone"


def test_an_edited_envelope_is_tampered(folder):
    path = folder.benchmark("candidate")
    envelope = json.loads(path.read_text())
    envelope["planned"]["requests"] = 10
    path.write_text(json.dumps(envelope))
    assert str(only(folder).problem).startswith("tampered: the envelope was edited")


def test_white_space_in_an_envelope_changes_the_digest_not_the_outcome(folder):
    path = folder.benchmark("candidate")
    before = load_evidence(folder.root)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    after = load_evidence(folder.root)
    assert after.items[0].problem is None
    assert after.digest != before.digest


def test_a_reference_holds_on_to_the_bytes_it_was_made_of(folder):
    path = folder.benchmark("candidate")
    references = reference_folder(folder.root)
    assert only(folder, references).problem is None
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    assert str(only(folder, references).problem) == "tampered: the envelope is not the one that was referenced"
    path.unlink()
    assert only(folder, references).problem.code == "tampered"


@pytest.mark.parametrize(
    "path", ["../outside.jsonl", "a/../../outside.jsonl", "/etc/hostname", "..\\outside", "a\0b", "."]
)
def test_a_file_outside_the_folder_is_never_opened(folder, path):
    (folder.root.parent / "outside.jsonl").write_text("secret")
    folder.benchmark("candidate", change=lambda e: e["files"][0].update(path=path))
    assert only(folder).problem.code == "bad_value"
    assert only(folder).file_digests == ()


def test_a_path_may_lead_to_a_neighbour_inside_the_folder(folder, new_folder):
    below = new_folder()
    below.root = folder.root / "r2"
    below.benchmark("candidate", change=lambda e: e["files"][0].update(path="../raw.jsonl"))
    (below.root / "benchmark-candidate.benchmark.jsonl").rename(folder.root / "raw.jsonl")
    assert only(folder).problem is None


def test_a_reference_outside_the_folder_is_never_opened(folder):
    folder.root.mkdir()
    (folder.root.parent / "x.evidence.json").write_text("{}")
    for path in ("../x.evidence.json", "/etc/hostname", ""):
        assert only(folder, [EvidenceReference(path, "")]).problem.code == "bad_value"


def test_a_link_in_the_folder_is_an_error(folder):
    folder.benchmark("candidate")
    (folder.root / "elsewhere").symlink_to("/")
    with pytest.raises(EvidenceError, match="symbolic link"):
        load_evidence(folder.root)


def test_a_link_is_not_followed_by_a_reference(folder):
    path = folder.benchmark("candidate")
    references = reference_folder(folder.root)
    raw = folder.root / "benchmark-candidate.benchmark.jsonl"
    raw.rename(folder.root.parent / "moved.jsonl")
    raw.symlink_to(folder.root.parent / "moved.jsonl")
    assert "without following a link" in str(only(folder, references).problem)
    path.rename(folder.root.parent / "moved.json")
    path.symlink_to(folder.root.parent / "moved.json")
    assert "without following a link" in str(only(folder, references).problem)


def test_a_linked_directory_on_the_way_is_not_followed(folder, new_folder):
    below = new_folder()
    below.root = folder.root / "r2"
    below.benchmark("candidate")
    references = reference_folder(folder.root)
    below.root.rename(folder.root.parent / "moved")
    below.root.symlink_to(folder.root.parent / "moved")
    assert only(folder, references).problem.code == "bad_value"


def test_something_that_is_no_regular_file_is_refused_at_once(folder):
    folder.benchmark("candidate")
    raw = folder.root / "benchmark-candidate.benchmark.jsonl"
    raw.unlink()
    os.mkfifo(raw)
    assert str(only(folder).problem).endswith("is not a regular file")


def test_the_digest_does_not_depend_on_order_or_names(folder, new_folder):
    folder.both()
    references = reference_folder(folder.root)
    assert load_evidence(folder.root, references[::-1]).digest == load_evidence(folder.root).digest
    for item in load_evidence(folder.root).items:
        (folder.root / item.path).rename(folder.root / f"renamed-{item.path}")
    assert load_evidence(folder.root).digest == load_evidence(folder.root, reference_folder(folder.root)).digest


def test_any_byte_of_any_file_changes_the_digest(folder):
    folder.both()
    before = load_evidence(folder.root).digest
    raw = folder.root / "quality-baseline.quality.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert load_evidence(folder.root).digest != before


def test_about_keeps_what_speaks_of_one_revision(folder):
    folder.both()
    about = load_evidence(folder.root).about(folder.candidate)
    assert {item.envelope.role for item in about.items} == {"candidate"}
    assert len(about.items) == 2


def test_newest_end_looks_past_what_cannot_count(folder):
    def later(envelope):
        envelope["window"]["ended_at"] = "2027-01-01T00:00:00Z"

    folder.benchmark("baseline")
    folder.benchmark("candidate", change=later)
    assert newest_end(load_evidence(folder.root)) == "2026-11-30T04:02:00Z"  # the file's own header disagrees


def test_a_file_name_that_is_no_text_is_named_without_a_crash(folder):
    folder.root.mkdir(parents=True, exist_ok=True)
    (folder.root / os.fsdecode(b"\xff.evidence.json")).write_text("{}")
    with pytest.raises(EvidenceError, match="not printable text"):
        reference_folder(folder.root)
