"""What may be judged: bound to this very revision, fresh, whole, untouched, and nothing withdrawn."""

import hashlib
import json
from dataclasses import replace

import pytest

from pulumi_infercrane.guard import load_evidence, rollback
from pulumi_infercrane.guard.evidence import revision_digest

DIGEST = "sha256:" + "0" * 64
ERRORS_ONLY = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.error_fraction}]\n"


def entry(decision, path):
    """The record's line about one raw file."""
    return next(one for one in decision.record["evidence"] if path in one.get("files", []))


def decided(folder, **changes):
    return folder.decide(policy=ERRORS_ONLY, **changes)


def good(folder, name="", **changes):
    return folder.benchmark("candidate", folder.seconds(300), name=name, **changes)


def test_evidence_of_another_revision_does_not_count(folder, new_folder):
    other = new_folder(candidate="r9")
    other.root = folder.root
    good(other)
    decision = decided(folder)
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons == (
        "benchmark: no_evidence: no admissible candidate measurement; 1 set aside as binding_mismatch",
    )
    assert entry(decision, "benchmark-candidate.benchmark.jsonl")["reasons"][0].startswith("binding_mismatch: measured")


def test_evidence_of_the_baseline_is_not_evidence_of_the_candidate(folder):
    folder.subjects["candidate"] = folder.subjects["baseline"]
    good(folder)
    assert decided(folder, candidate="sha256:" + "0" * 64).verdict == "insufficient_evidence"


def test_a_candidate_changed_after_measuring_starts_anew(folder, subject_of):
    good(folder)
    assert decided(folder).verdict == "promote"
    folder.subjects["candidate"] = subject_of("r2", quantization="q4")
    assert decided(folder).verdict == "insufficient_evidence"


def test_another_revision_answering_in_mid_run_is_noticed(folder):
    probes = {"before": {"version": "b1", "restarts": 0}, "after": {"version": "b1", "restarts": 1}}
    good(folder, change=lambda envelope: envelope.update(probes=probes))
    assert decided(folder).reasons == (
        "benchmark: subject_changed: restarts before the run differ from those after it",
    )


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        ("2026-11-30T03:57:00Z", "promote"),
        ("2026-11-30T03:56:59Z", "benchmark: clock: measured until 2026-11-30T04:02:00Z, which is after"),
        ("2026-12-07T04:02:00Z", "promote"),
        ("2026-12-07T04:02:01Z", "benchmark: stale: measured until 2026-11-30T04:02:00Z, older than the 7d allowed"),
    ],
)
def test_evidence_is_neither_from_the_future_nor_too_old(folder, as_of, expected):
    good(folder)
    decision = decided(folder, as_of=as_of)
    assert decision.verdict == expected or decision.reasons[0].startswith(expected)


def test_the_policy_may_allow_another_age(folder):
    good(folder)
    policy = ERRORS_ONLY + "max_age: {benchmark: 30m}\n"
    assert folder.decide(policy=policy).reasons[0].startswith("benchmark: stale")


@pytest.mark.parametrize("year", ["0001", "9999"])
def test_a_window_at_an_end_of_the_calendar_is_a_reason_not_an_error(folder, year):
    times = {"started_at": f"{year}-12-31T23:59:58Z", "ended_at": f"{year}-12-31T23:59:59Z"}
    folder.both().quality("candidate", change=lambda envelope: envelope.update(window=times))
    decision = folder.decide()
    assert decision.verdict == "insufficient_evidence"
    assert "is not a UTC time" in str(decision.record["evidence"])


def test_a_window_that_ends_before_it_starts_is_refused(folder):
    window = {"started_at": "2026-11-30T04:00:30Z", "ended_at": "2026-11-30T04:00:00Z"}
    good(folder, header=dict(window), change=lambda envelope: envelope.update(window=window))
    assert decided(folder).reasons[0].startswith("benchmark: clock: the window ends at")


@pytest.mark.parametrize(("offset", "verdict"), [(5000, "promote"), (-5001, "insufficient_evidence")])
def test_a_measuring_clock_that_is_off_is_refused(folder, offset, verdict):
    good(folder, change=lambda envelope: envelope.update(runner={"clock_offset_ms": offset}))
    assert decided(folder).verdict == verdict


def test_tampered_evidence_blocks_its_kind_however_good_the_rest_is(folder):
    good(folder, name="honest")
    good(folder, name="edited")
    raw = folder.root / "edited.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    decision = decided(folder)
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons[0].startswith("benchmark: tampered: edited.benchmark.jsonl was changed after")


def test_tampered_evidence_of_another_revision_blocks_nothing(folder, new_folder):
    good(folder)
    other = new_folder(candidate="r9")
    other.root = folder.root
    good(other, name="other")
    (folder.root / "other.benchmark.jsonl").write_bytes(b"")
    assert decided(folder).verdict == "promote"


def test_tampered_evidence_of_another_revision_is_not_what_is_missing(folder, new_folder):
    other = new_folder(candidate="r9")
    other.root = folder.root
    good(other, name="other")
    (folder.root / "other.benchmark.jsonl").write_bytes(b"")
    assert decided(folder).record["first_reason"] == "benchmark: no_evidence"


def test_an_unreadable_envelope_is_listed_and_blocks_nothing(folder):
    good(folder)
    (folder.root / "broken.evidence.json").write_text("{")
    decision = decided(folder)
    assert decision.verdict == "promote"
    assert [one["reasons"][0][:8] for one in decision.record["evidence"] if not one["used"]] == ["not_json"]


def test_the_only_evidence_unreadable_is_named(folder):
    folder.root.mkdir()
    (folder.root / "broken.evidence.json").write_text("{")
    assert decided(folder).reasons == (
        "benchmark: no_evidence: no admissible candidate measurement; 1 set aside as not_json",
    )


def test_the_same_evidence_twice_counts_once(folder):
    path = folder.benchmark("candidate", folder.seconds(150))
    (folder.root / "copy.evidence.json").write_bytes(path.read_bytes())
    decision = decided(folder)
    assert decision.record["rules"][0]["n"] == [150]
    assert [one["reasons"] for one in decision.record["evidence"] if not one["used"]] == [["duplicate: counted once"]]


def test_one_file_under_two_envelopes_counts_once(folder):
    folder.benchmark("candidate", folder.seconds(150), name="x")
    envelope = json.loads((folder.root / "x.evidence.json").read_text())
    folder.write_raw(
        "benchmark",
        "candidate",
        "y",
        (folder.root / "x.benchmark.jsonl").read_bytes(),
        envelope["scenario"] | {"warmup_s": 1},
    )
    assert decided(folder).record["rules"][0]["n"] == [150]


def test_one_file_for_two_revisions_is_evidence_for_neither(folder):
    good(folder)
    raw = (folder.root / "benchmark-candidate.benchmark.jsonl").read_bytes()
    folder.write_raw("benchmark", "baseline", "again", raw, planned=300)
    assert decided(folder).reasons[0] == "benchmark: binding_conflict: the same file is offered for two revisions"


def beside(part, raw):
    """A second file of a benchmark, with these bytes."""

    def change(envelope):
        entry = envelope["files"][0] | {"part": part, "path": "second", "size": len(raw)}
        envelope["files"].append(entry | {"sha256": hashlib.sha256(raw).hexdigest()})

    return change


@pytest.mark.parametrize(("part", "shared"), [("details", True), ("samples", False), ("validation", False)])
def test_no_two_measurements_have_the_same_details(folder, part, shared):
    """The tokens of one revision beside the cost of another; answers may well be the same."""
    folder.benchmark("baseline", folder.seconds(300, 3), change=beside(part, b"{}"))
    folder.benchmark("candidate", folder.seconds(300), change=beside(part, b"{}"))
    (folder.root / "second").write_bytes(b"{}")
    reasons = {reason for entry in decided(folder).record["evidence"] for reason in entry["reasons"]}
    assert ("binding_conflict: the same file is offered for two revisions" in reasons) is shared


def runs(folder, ordinals, of):
    for ordinal in ordinals:
        run = {"group": "g", "ordinal": ordinal, "of": of}
        folder.benchmark(
            "candidate",
            folder.seconds(150, ordinal),
            name=f"run-{ordinal}",
            change=lambda e, run=run: e.update(run=run),
        )


def test_a_group_of_runs_counts_whole(folder):
    runs(folder, [1, 2, 3], of=3)
    assert decided(folder).record["rules"][0]["n"] == [450]


def test_the_best_three_of_five_count_for_nothing(folder):
    runs(folder, [1, 3, 5], of=5)
    assert decided(folder).reasons[0] == ("benchmark: truncated: 3 of 5 runs of its group are present and admissible")


def measured_together(group):
    return lambda envelope: envelope.update(run={"group": group, "ordinal": 1, "of": 1})


def test_a_baseline_counts_only_beside_the_candidate_it_was_measured_in_turn_with(folder):
    folder.benchmark("candidate", change=measured_together("with r2"))
    folder.benchmark("baseline", change=measured_together("with r2"))
    other = folder.seconds(150, seed=9)
    folder.benchmark("baseline", other, name="other", change=measured_together("with r3"))
    pieces = {piece["files"][0]: piece["reasons"] for piece in decided(folder).record["evidence"]}
    assert pieces["benchmark-baseline.benchmark.jsonl"] == []
    assert pieces["other.benchmark.jsonl"] == ["not_comparable: measured in turn with another candidate"]


def test_a_baseline_that_belongs_to_no_comparison_serves_every_candidate(folder):
    folder.benchmark("candidate", change=measured_together("with r2"))
    folder.benchmark("baseline")
    assert all(piece["reasons"] == [] for piece in decided(folder).record["evidence"])


def supersede(folder, old, reason="wrong data set", name="new", **changes):
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": reason}]
    return folder.benchmark(
        "candidate", folder.seconds(300, seed=7), name=name, change=lambda e: e.update(supersedes=named), **changes
    )


SOFT_ERRORS = ERRORS_ONLY.replace("error_fraction", "error_fraction, class: S")


def test_a_superseded_piece_steps_back_with_its_reason(folder):
    old = folder.benchmark("candidate", folder.seconds(300), failed=50, name="old")
    supersede(folder, old)
    decision = folder.decide(policy=SOFT_ERRORS)
    assert decision.verdict == "promote"
    assert entry(decision, "old.benchmark.jsonl")["reasons"] == ["superseded: wrong data set"]
    replaced = {"evidence_id": entry(decision, "old.benchmark.jsonl")["evidence_id"], "reason": "wrong data set"}
    assert entry(decision, "new.benchmark.jsonl")["supersedes"] == [replaced]


def test_a_superseded_piece_that_broke_a_hard_limit_still_counts(folder):
    old = folder.benchmark("candidate", folder.seconds(300), failed=50, name="old")
    supersede(folder, old)
    (rule,) = decided(folder).record["rules"]
    assert (rule["outcome"], rule["n"]) == ("fail", [300])
    assert rule["notes"] == ["superseded evidence counts: a hard limit was broken"]
    assert len(rule["evidence"]) == 2


def test_a_piece_is_not_superseded_by_one_that_does_not_count(folder):
    old = folder.benchmark("candidate", folder.seconds(300), failed=50, name="old")
    supersede(folder, old, lines=lambda lines: lines.clear())
    assert decided(folder).verdict == "reject"


def test_a_piece_is_not_superseded_by_the_other_side(folder):
    old = folder.benchmark("candidate", folder.seconds(300), failed=50, name="old")
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "no"}]
    folder.benchmark("baseline", folder.seconds(300), change=lambda e: e.update(supersedes=named))
    assert decided(folder).verdict == "reject"


# --- earlier decisions ------------------------------------------------------------------------------------------


def test_evidence_an_earlier_decision_used_may_not_disappear(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=50, name="bad")
    rejected = decided(folder)
    bad.unlink()
    (folder.root / "bad.benchmark.jsonl").unlink()
    good(folder)
    decision = decided(folder, history=[rejected.record])
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons[0].startswith("benchmark: evidence_withdrawn: ")
    assert decision.record["history"] == [rejected.decision_id]


def test_evidence_that_was_superseded_may_disappear(folder):
    old = good(folder, name="old")
    earlier = decided(folder)
    supersede(folder, old)
    old.unlink()
    assert decided(folder, history=[earlier.record]).verdict == "promote"


def test_superseded_evidence_that_broke_a_hard_limit_may_not(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=50, name="bad")
    rejected = decided(folder)
    supersede(folder, bad)
    bad.unlink()
    assert decided(folder, history=[rejected.record]).reasons[0].startswith("benchmark: evidence_withdrawn")


def test_superseded_evidence_that_broke_a_soft_limit_may_disappear(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=50, name="bad")
    rejected = folder.decide(policy=SOFT_ERRORS)
    supersede(folder, bad)
    bad.unlink()
    assert rejected.verdict == "reject"
    assert folder.decide(policy=SOFT_ERRORS, history=[rejected.record]).verdict == "promote"


def test_evidence_that_never_counted_may_disappear(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), name="bad", lines=lambda lines: lines.clear())
    earlier = decided(folder)
    bad.unlink()
    good(folder)
    assert decided(folder, history=[earlier.record]).verdict == "promote"


def test_decisions_about_other_candidates_do_not_matter(folder, new_folder):
    other = new_folder(candidate="r9")
    good(other)
    good(folder)
    decision = decided(folder, history=[decided(other).record])
    assert decision.verdict == "promote"
    assert decision.record["history"] == []


def test_evidence_that_changed_since_is_tampered_not_withdrawn(folder):
    good(folder)
    earlier = decided(folder)
    raw = folder.root / "benchmark-candidate.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert decided(folder, history=[earlier.record]).reasons[0].startswith("benchmark: tampered")


def rolled_back(folder, at):
    return rollback(
        service="chat",
        stack="dev",
        target=folder.baseline,
        active=folder.candidate,
        policy_digest="sha256:" + "0" * 64,
        as_of=at,
        reason="users saw garbage",
    ).record


@pytest.mark.parametrize(
    ("at", "verdict"),
    [("2026-11-30T04:30:00Z", "insufficient_evidence"), ("2026-11-30T03:59:00Z", "promote")],
)
def test_after_a_rollback_the_candidate_needs_a_new_measurement(folder, at, verdict):
    good(folder)
    decision = decided(folder, history=[rolled_back(folder, at)])
    assert decision.verdict == verdict
    if verdict != "promote":
        assert (
            decision.reasons[0] == "benchmark: stale: measured before this revision was rolled back; measure it again"
        )


def test_a_measurement_that_began_with_the_rollback_is_new(folder):
    good(folder)
    assert decided(folder, history=[rolled_back(folder, "2026-11-30T04:00:00Z")]).verdict == "promote"


def test_the_last_of_several_rollbacks_counts_and_one_new_measurement_does(folder):
    good(folder)
    times = ("2026-11-30T03:00:00Z", "2026-11-30T04:30:00Z", "2026-11-30T03:30:00Z")
    history = [rolled_back(folder, at) for at in times]
    assert decided(folder, history=history).verdict == "insufficient_evidence"
    window = {"started_at": "2026-11-30T04:40:00Z", "ended_at": "2026-11-30T04:42:00Z"}
    good(folder, name="again", header=dict(window), change=lambda e: e.update(window=window))
    assert decided(folder, history=history).verdict == "promote"


def test_after_a_rollback_a_kind_that_was_never_measured_is_missing_not_stale(folder):
    folder.quality("candidate")
    decision = decided(folder, history=[rolled_back(folder, "2026-11-30T04:30:00Z")])
    assert decision.record["first_reason"] == "benchmark: no_evidence"


def test_a_rollback_to_the_candidate_says_nothing_against_it(folder):
    good(folder)
    back_to_it = rolled_back(folder, "2026-11-30T04:30:00Z") | {
        "candidate": folder.candidate,
        "baseline": "sha256:" + "9" * 64,
    }
    decision = decided(folder, history=[back_to_it])
    assert (decision.verdict, len(decision.record["history"])) == ("promote", 1)


def test_superseded_evidence_that_was_only_slower_than_the_baseline_may_disappear(folder):
    """A comparison is repeated, a limit is not."""
    policy = (
        "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.ttft_p50, min_pass: 300}]\n"
    )
    folder.benchmark("baseline", folder.seconds(300, seed=7))
    slow = folder.benchmark("candidate", folder.seconds(300, seed=7, scale=3.0), name="slow")
    rejected = folder.decide(policy=policy)
    supersede(folder, slow)
    slow.unlink()
    repeated = folder.decide(policy=policy, history=[rejected.record])
    assert (rejected.verdict, repeated.verdict) == ("reject", "promote")


def test_evidence_is_not_replaced_by_a_piece_that_does_not_count(folder):
    old = good(folder, name="old")
    earlier = decided(folder)
    supersede(folder, old, lines=lambda lines: lines.clear())
    old.unlink()
    good(folder)
    assert decided(folder, history=[earlier.record]).reasons[0].startswith("benchmark: evidence_withdrawn")


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


# --- what is wrong already stays so -----------------------------------------------------------------------------


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
    folder.root.mkdir()
    for name, content in (("a", "{"), ("b", "["), ("c", "{}")):
        (folder.root / f"{name}.evidence.json").write_text(content)
    (reason,) = decided(folder).reasons
    assert reason.endswith("measurement; 2 set aside as not_json; 1 set aside as schema_unknown")


# --- binding ----------------------------------------------------------------------------------------------------

QUALITY = """\
schema: infercrane.policy/v1
required_kinds: [quality]
rules:
  - {id: quality.basics, margin: 0.05, min_pass: 60}
"""


def quality_of(folder, **changes):
    """The candidate's answers, measured on a revision that differs in `changes`."""
    known = folder.subjects["candidate"]
    folder.quality("baseline")
    changed = {key: value for key, value in known.items() if key != "revision_digest"} | changes
    folder.subjects["candidate"] = changed | {"revision_digest": revision_digest(changed)}
    folder.quality("candidate")
    folder.subjects["candidate"] = known


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"region": "eu-west-1", "provider": "aws"}, "promote"),
        ({"parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1}}, "promote"),
        ({"accelerator": {"vendor": "cpu", "sku": "host", "count": 2}}, "promote"),
        ({"accelerator": {"vendor": "cpu", "sku": "guest", "count": 1}}, "insufficient_evidence"),
        ({"quantization": "q4"}, "insufficient_evidence"),
        ({"chat_template_sha": "sha256:" + "e" * 64}, "insufficient_evidence"),
        ({"model": {"source": "file:model.gguf", "weights_digest": "other"}}, "insufficient_evidence"),
        ({"runtime": {"image": "sha256:" + "e" * 64}}, "insufficient_evidence"),
        ({"engine": {"name": "llama.cpp", "version": "b1", "args_digest": DIGEST}}, "insufficient_evidence"),
    ],
)
def test_answers_of_a_revision_that_answers_alike_count(folder, changes, verdict):
    good(folder)  # this is where the candidate's subject is known from
    quality_of(folder, **changes)
    assert folder.decide(policy=QUALITY).verdict == verdict


def test_answers_of_another_revision_do_not_count_while_the_candidate_is_not_known(folder):
    quality_of(folder, region="eu-west-1")
    assert folder.decide(policy=QUALITY).reasons[0].endswith("1 set aside as binding_mismatch")


def test_nothing_but_answers_counts_for_another_revision(folder, new_folder):
    good(folder, name="one request short", lines=lambda lines: lines.clear())
    other = new_folder()
    other.root, other.subjects["candidate"] = folder.root, folder.subjects["candidate"] | {"region": "eu-west-1"}
    other.subjects["candidate"]["revision_digest"] = revision_digest(other.subjects["candidate"])
    good(other)
    assert decided(folder).verdict == "insufficient_evidence"


@pytest.mark.parametrize(
    ("declared", "verdict"),
    [
        ({"stack": "org/project/prod"}, "promote"),
        ({"environment": "prod"}, "promote"),
        ({"stack": "org/project/staging"}, "insufficient_evidence"),
        ({"environment": "staging"}, "insufficient_evidence"),
    ],
)
def test_events_and_cost_are_those_of_the_stack(folder, declared, verdict):
    folder.subjects["candidate"] |= declared
    folder.reliability()
    policy = "schema: infercrane.policy/v1\nrequired_kinds: [reliability]\nrules: [{id: reliability.crashes}]\n"
    assert folder.decide(policy=policy, stack="org/project/prod").verdict == verdict


def test_a_hard_fail_stands_in_a_conflict(folder):
    folder.benchmark("candidate", folder.seconds(300, 1), name="calm")
    folder.benchmark("candidate", folder.seconds(300, 2), failed=90, name="wild")
    assert decided(folder).verdict == "reject"
