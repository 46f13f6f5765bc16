"""What is wrong with a piece stays wrong, whatever the others say, and of several problems the earliest is told."""

from dataclasses import replace
from hashlib import sha256

import pytest

from pulumi_infercrane.guard import load_evidence
from tests.guard.asking import decided, good, measured_together, runs, supersede


def test_of_what_is_wrong_with_the_own_pieces_the_earliest_gate_is_told(folder):
    """And what is wrong with another kind is not."""
    late = {"started_at": "2026-11-30T06:00:00Z", "ended_at": "2026-11-30T06:02:00Z"}
    folder.quality("candidate", header=dict(late), change=lambda e: e.update(window=late))
    assert decided(folder).reasons[0] == "benchmark: no_evidence: no admissible candidate measurement"
    good(folder, name="few", lines=lambda lines: lines.__delitem__(slice(9, None)))
    assert decided(folder).record["first_reason"] == "benchmark: truncated"
    good(folder, name="late", header=dict(late), change=lambda e: e.update(window=late))
    assert decided(folder).record["first_reason"] == "benchmark: clock"


def test_a_window_of_no_length_is_short_and_not_backwards(folder):
    window = {"started_at": "2026-11-30T04:00:00Z", "ended_at": "2026-11-30T04:00:00Z"}
    good(folder, header=dict(window), change=lambda e: e.update(window=window))
    assert decided(folder).record["first_reason"] == "benchmark: truncated"


def break_off(lines):
    """A run of which too little is in the file."""
    del lines[9:]


def reasons(decision):
    """Reasons of every piece by its raw file."""
    return {
        piece["files"][0].removesuffix(".benchmark.jsonl"): piece["reasons"] for piece in decision.record["evidence"]
    }


def test_a_group_with_a_run_that_does_not_count_does_not_count(folder):
    runs(folder, [1, 2], of=3)
    third = {"group": "g", "ordinal": 3, "of": 3}
    good(folder, name="third", change=lambda e: e.update(run=third), lines=break_off)
    assert decided(folder).record["rules"][0]["outcome"] == "unknown"
    found = reasons(decided(folder))
    assert found["run-1"] == ["truncated: 2 of 3 runs of its group are present and admissible"]
    assert found["third"] == ["truncated: 9 of 300 planned requests are in the file"]


def test_groups_do_not_make_up_for_each_other(folder):
    for ordinal, group in ((1, "a"), (2, "b")):
        run = {"group": group, "ordinal": ordinal, "of": 2}
        folder.benchmark(
            "candidate", folder.seconds(300, ordinal), name=group, change=lambda e, run=run: e.update(run=run)
        )
    assert decided(folder).record["first_reason"] == "benchmark: truncated"


@pytest.mark.parametrize("of", [1, 2])
def test_a_bad_run_is_not_made_to_not_count_by_one_that_says_its_group_is_larger(folder, of):
    for ordinal, size, failed in ((1, 1, 100), (2, of, 0)):
        run = {"group": "g", "ordinal": ordinal, "of": size}
        folder.benchmark(
            "candidate",
            folder.seconds(400, ordinal),
            failed=failed,
            name=f"run-{ordinal}",
            change=lambda e, run=run: e.update(run=run),
        )
    assert decided(folder).record["first_reason"] == "benchmark.error_fraction: limit_exceeded"


def test_a_file_that_was_tampered_with_stays_so_when_two_revisions_share_it(folder):
    good(folder)
    shared = folder.benchmark("candidate", folder.seconds(300, seed=5), name="shared")
    raw = folder.root / "shared.benchmark.jsonl"
    folder.write_raw("benchmark", "baseline", "again", raw.read_bytes(), planned=300)
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert shared.exists()
    assert decided(folder).record["first_reason"] == "benchmark: tampered"


def test_a_baseline_that_was_tampered_with_stays_so_beside_another_candidate(folder):
    folder.benchmark("candidate", change=measured_together("with r2"))
    folder.benchmark("baseline", change=measured_together("with r2"))
    folder.benchmark("baseline", folder.seconds(150, seed=9), name="other", change=measured_together("with r3"))
    raw = folder.root / "other.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert decided(folder).record["first_reason"] == "benchmark: tampered"


def test_evidence_that_was_tampered_with_is_not_excused_by_a_successor(folder):
    old = good(folder, name="old")
    supersede(folder, old)
    raw = folder.root / "old.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert decided(folder).record["first_reason"] == "benchmark: tampered"


def test_a_baseline_is_not_kept_by_a_candidate_that_does_not_count(folder):
    good(folder, change=measured_together("first"), lines=break_off)
    folder.benchmark("candidate", folder.seconds(300, seed=2), name="again", change=measured_together("second"))
    folder.benchmark("baseline", folder.seconds(300, seed=3), change=measured_together("first"))
    folder.benchmark("baseline", folder.seconds(300, seed=4), name="later", change=measured_together("second"))
    found = reasons(decided(folder))
    assert found["benchmark-baseline"] == ["not_comparable: measured in turn with another candidate"]
    assert (found["again"], found["later"]) == ([], [])


def test_a_baseline_without_any_candidate_is_left_alone(folder):
    folder.benchmark("baseline", change=measured_together("with r2"))
    assert reasons(decided(folder))["benchmark-baseline"] == []


def test_an_envelope_that_does_not_count_is_no_reason_to_leave_out_another_of_the_same_file(folder):
    """Whichever of the two comes first."""
    good(folder)
    raw = (folder.root / "benchmark-candidate.benchmark.jsonl").read_bytes()
    for number in range(8):
        offset = {"clock_offset_ms": 6000 + number}
        change = {"change": lambda e, offset=offset: e.update(runner=offset)}
        folder.write_raw("benchmark", "candidate", f"off-{number}", raw, planned=300, **change)
    decision = decided(folder)
    assert decision.verdict == "promote"
    assert [piece["used"] for piece in decision.record["evidence"]].index(True) > 0


def test_a_run_of_nothing_is_truncated(folder):
    folder.benchmark("candidate", [])
    assert decided(folder).record["first_reason"] == "benchmark: truncated"


def test_the_order_in_which_evidence_was_found_does_not_matter(folder):
    folder.both()
    found = load_evidence(folder.root)
    turned = replace(found, items=tuple(reversed(found.items)))
    assert folder.decide(evidence=turned).record["evidence"] == folder.decide(evidence=found).record["evidence"]


def test_what_was_set_aside_is_counted_by_reason(folder):
    """In the order of the codes, not in that of the files."""
    last, *first = sorted(("{}" + " " * number for number in range(9)), key=lambda text: sha256(text.encode()).digest())
    folder.root.mkdir()
    for name, content in (("a", "{"), ("b", "["), ("c", last), ("d", first[-1])):
        (folder.root / f"{name}.evidence.json").write_text(content)
    (reason,) = decided(folder).reasons
    assert reason.endswith("measurement; 2 set aside as not_json; 2 set aside as schema_unknown")
