"""What may be judged: bound to this very revision, fresh, whole, untouched, and nothing withdrawn."""

import hashlib
import json
from itertools import permutations

import pytest

from pulumi_infercrane.guard import EvidenceSet, decide, load_evidence, load_policy
from pulumi_infercrane.guard.evidence import revision_digest
from tests.guard.asking import ERRORS_ONLY, decided, entry, good, measured_together, runs, supersede

DIGEST = "sha256:" + "0" * 64


def test_evidence_of_another_revision_does_not_count(folder, new_folder):
    other = new_folder(candidate="r9")
    other.root = folder.root
    good(other)
    decision = decided(folder)
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons == (
        "benchmark: no_evidence: no admissible candidate measurement; 1 set aside as binding_mismatch",
    )
    measured, asked = (str(one.candidate)[:19] for one in (other, folder))
    assert entry(decision, "benchmark-candidate.benchmark.jsonl")["reasons"] == [
        f"binding_mismatch: measured candidate {measured}…, this decision is about {asked}…"
    ]


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


def test_a_group_of_runs_counts_whole(folder):
    runs(folder, [1, 2, 3], of=3)
    assert decided(folder).record["rules"][0]["n"] == [450]


def test_the_best_three_of_five_count_for_nothing(folder):
    runs(folder, [1, 3, 5], of=5)
    assert decided(folder).reasons[0] == (
        "benchmark: truncated: 3 of 5 runs of its group are present and admissible; all 5 runs of the group"
    )


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


@pytest.mark.parametrize("edited", ["r7", "r8", "r9"])
def test_what_was_set_aside_is_listed_by_reason_whatever_came_first(folder, new_folder, edited):
    for revision, role in (("r7", "candidate"), ("r8", "candidate"), ("r9", "candidate")):
        other = new_folder(candidate=revision)
        other.root = folder.root
        other.benchmark(role, other.seconds(150), name=revision)
    for path in folder.root.glob(f"{edited}*.evidence.json"):
        path.write_text(path.read_text().replace('"b1"', '"b2"'))
    (reason,) = decided(folder).reasons
    assert reason.endswith(
        "no admissible candidate measurement; 2 set aside as binding_mismatch; 1 set aside as tampered"
    )


def test_the_order_of_the_evidence_changes_no_byte_of_the_record(folder):
    good(folder, name="b")
    folder.benchmark("candidate", folder.seconds(150, seed=5), name="a")
    folder.benchmark("baseline")
    there = load_evidence(folder.root)
    asked = {"service": "chat", "stack": "dev", "candidate": folder.candidate, "baseline": folder.baseline}
    records = [
        decide(load_policy(ERRORS_ONLY), EvidenceSet(items), as_of="2026-11-30T05:00:00Z", **asked).canonical
        for items in permutations(there.items)
    ]
    assert len(set(records)) == 1
