"""What a Release decides, run by run: a function of recorded state, declared inputs and files."""

import pytest

from pulumi_infercrane.guard import reference_folder, sign_override
from pulumi_infercrane.guard.times import parse_time
from tests.components.world import World, problem
from tests.guard.conftest import POLICY, Folder
from tests.guard.trust.conftest import entry, key_of, trusting


def test_the_first_and_only_revision_serves_by_bootstrap(world: World) -> None:
    fields = world.up(revisions=(world.r1,)).fields
    assert (fields["activeRevision"], fields["decisionType"], fields["action"]) == (world.r1, "bootstrap", "flip")


def test_a_first_revision_that_breaks_a_limit_does_not_serve(world: World) -> None:
    world.evidence.benchmark("baseline", failed=60, change=lambda envelope: envelope.update(role="candidate"))
    fields = world.up(revisions=(world.r1,)).fields
    assert (fields["activeRevision"], fields["decisionType"], fields["verdict"]) == ("", "bootstrap", "reject")


def test_a_first_revision_serves_once_what_the_policy_requires_is_there(world: World) -> None:
    world.policy = "bootstrap: {required_kinds: [benchmark]}\n" + POLICY
    fields = world.up(revisions=(world.r1,)).fields
    assert (fields["activeRevision"], fields["action"]) == ("", "keep")
    world.evidence.benchmark("baseline", change=lambda envelope: envelope.update(role="candidate"))
    fields = world.up(revisions=(world.r1,)).fields
    assert (fields["activeRevision"], fields["action"], fields["previousRevision"]) == (world.r1, "flip", "")


def test_without_bootstrap_in_the_policy_nothing_serves_first(world: World) -> None:
    world.policy = POLICY
    where, why = problem(world.preview(revisions=(world.r1,)))
    assert where == "policy"
    assert "bootstrap" in why


def test_which_of_two_serves_first_is_never_guessed(world: World) -> None:
    where, why = problem(world.preview())
    assert where == "initialActive"
    assert "which one serves first" in why
    assert world.up(initial_active=world.r2).fields["activeRevision"] == world.r2


def test_a_candidate_without_evidence_is_kept_out(world: World) -> None:
    fields = world.serving_r1().up(candidate=world.r2).fields
    assert (fields["activeRevision"], fields["verdict"], fields["action"]) == (
        world.r1,
        "insufficient_evidence",
        "keep",
    )


def test_evidence_about_another_revision_promotes_nobody(world: World) -> None:
    world.serving_r1()
    Folder(world.evidence.root, candidate="r3").both()
    fields = world.up(candidate=world.r2).fields
    assert (fields["activeRevision"], fields["verdict"]) == (world.r1, "insufficient_evidence")


def test_a_failing_rule_rejects(world: World) -> None:
    world.serving_r1()
    world.evidence.both()
    world.evidence.quality("candidate", (0.0,) * 60)
    fields = world.up(candidate=world.r2).fields
    assert (fields["activeRevision"], fields["verdict"]) == (world.r1, "reject")


def test_good_evidence_promotes_exactly_once(world: World) -> None:
    world.serving_r2()
    assert world.state["previousRevision"] == world.r1
    decided = world.state["decisionId"]
    outcome = world.up(candidate=world.r2)
    assert outcome.decision is None
    assert outcome.fields["decisionId"] == decided


def test_asking_the_same_again_gives_the_same_decision_at_any_later_time(world: World) -> None:
    first = world.serving_r1().up(candidate=world.r2).fields
    later = world.up(candidate=world.r2, as_of="2026-12-24T00:00:00Z")
    assert later.decision is None
    assert later.fields == first


def test_new_evidence_is_a_new_question(world: World) -> None:
    first = world.serving_r1().up(candidate=world.r2).fields
    world.evidence.both()
    assert world.up(candidate=world.r2).fields["decisionId"] != first["decisionId"]


def test_preview_and_up_decide_alike(world: World) -> None:
    world.serving_r1()
    world.evidence.both()
    preview = world.preview(candidate=world.r2)
    assert preview.fields == world.up(candidate=world.r2).fields


def test_without_a_time_the_newest_measurement_sets_it(world: World) -> None:
    world.serving_r1()
    world.evidence.both()
    assert world.up(candidate=world.r2, as_of="").fields["decidedAt"] == "2026-11-30T04:02:00Z"


def test_evidence_that_changed_since_it_was_referenced_does_not_count(world: World) -> None:
    world.serving_r1()
    world.evidence.both()
    references = reference_folder(world.evidence.root)
    path = next(world.evidence.root.glob("*.quality.jsonl"))
    path.write_text(path.read_text().replace('"score": 1.0', '"score": 0.0', 1))
    outcome = world.preview(candidate=world.r2, evidence=references)
    assert outcome.fields["verdict"] == "insufficient_evidence"
    assert "tampered" in str(outcome.fields["reasons"])


def test_the_active_revision_may_not_leave(world: World) -> None:
    world.serving_r1()
    where, why = problem(world.preview(revisions=(world.r2,), candidate=world.r2))
    assert where == "revisions"
    assert "may not be removed while it serves" in why


def test_a_candidate_must_be_declared(world: World) -> None:
    world.serving_r1()
    assert problem(world.preview(candidate="sha256:" + "0" * 64))[0] == "candidate"


def test_a_service_is_not_renamed(world: World) -> None:
    world.serving_r1()
    assert problem(world.preview(service="talk"))[0] == "service"


def test_rollback_goes_to_the_recorded_previous_revision(world: World) -> None:
    fields = world.serving_r2().up(candidate=world.r2, rollback_to="previous", rollback_reason="slow").fields
    assert (fields["activeRevision"], fields["previousRevision"]) == (world.r1, "")
    assert fields["decisionType"] == "rollback"
    assert "slow" in fields["reasons"][0]


def test_rollback_to_anything_else_is_refused(world: World) -> None:
    world.serving_r1()
    where, why = problem(world.preview(rollback_to="previous", rollback_reason="x"))
    assert where == "rollbackTo"
    assert "no previous revision is recorded" in why
    world.evidence.both()
    world.up(candidate=world.r2)
    assert world.r1 in problem(world.preview(rollback_to="sha256:" + "0" * 64, rollback_reason="x"))[1]


def test_what_was_rolled_back_needs_new_evidence(world: World) -> None:
    world.serving_r2().up(candidate=world.r2, rollback_to="previous", rollback_reason="slow")
    fields = world.up(candidate=world.r2).fields
    assert (fields["activeRevision"], fields["verdict"]) == (world.r1, "insufficient_evidence")
    assert "rolled back" in str(fields["reasons"])


def test_a_route_moved_by_hand_is_unguarded(world: World) -> None:
    world.serving_r2()
    world.state["activeRevision"] = world.r1  # what Read found
    fields = world.up(candidate=world.r1).fields
    assert (fields["activeRevision"], fields["decisionType"], fields["decisionId"]) == (world.r1, "unguarded", "")
    assert "moved by hand" in fields["reasons"][0]


def test_a_broken_ledger_stops_everything(world: World) -> None:
    world.serving_r1()
    world.ledger.path.write_text(world.ledger.path.read_text().replace('"bootstrap"', '"promotion"', 1))
    where, why = problem(world.preview(candidate=world.r2))
    assert where == "ledger"
    assert "line 1" in why or ":1" in why


def test_a_policy_that_cannot_be_read_stops_everything(world: World) -> None:
    world.serving_r1()
    world.policy = POLICY.replace("margin: 1.0", "margn: 1.0")
    where, why = problem(world.preview(candidate=world.r2))
    assert where == "policy"
    assert "policy.yaml:5" in why


def test_a_second_rollback_does_not_bring_back_what_was_rolled_back(world: World) -> None:
    world.serving_r2().up(candidate=world.r2, rollback_to="previous", rollback_reason="slow")
    where, why = problem(world.preview(candidate=world.r2, rollback_to="previous", rollback_reason="again"))
    assert where == "rollbackTo"
    assert "only by new evidence" in why


def test_rollback_needs_no_policy_that_can_be_read(world: World) -> None:
    world.serving_r2()
    world.policy = "what: is this"
    fields = world.up(candidate=world.r2, rollback_to="previous", rollback_reason="slow").fields
    assert fields["activeRevision"] == world.r1


def test_a_candidate_that_is_taken_away_takes_its_verdict_along(world: World) -> None:
    world.serving_r1().up(candidate=world.r2)
    fields = world.up(candidate="").fields
    assert (fields["activeRevision"], fields["verdict"], fields["reasons"]) == (world.r1, "", [])
    assert world.up(candidate="").fields == fields


def test_a_flip_whose_state_was_never_written_keeps_its_decision_and_the_way_back(world: World) -> None:
    world.serving_r1()
    world.evidence.both()
    before = dict(world.state)
    decided = world.up(candidate=world.r2).fields
    found = {"activeRevision": world.r2, "servedDecision": decided["decisionId"]}  # what Read finds after the kill
    world.state = before | found
    fields = world.up(candidate=world.r2).fields
    assert (fields["decisionId"], fields["verdict"]) == (decided["decisionId"], "promote")
    assert fields["previousRevision"] == world.r1


def test_a_ledger_that_lost_the_last_decision_stops_everything_but_a_rollback(world: World) -> None:
    world.serving_r2()
    world.ledger.path.unlink()
    where, why = problem(world.preview(candidate=world.r2))
    assert where == "ledger"
    assert "restore it from a copy" in why
    assert not world.preview(candidate=world.r2, rollback_to="previous", rollback_reason="slow").problems


def test_nor_does_losing_the_ledger_let_serve_what_it_rejected(world: World) -> None:
    bad = world.evidence.benchmark("baseline", failed=60, change=lambda envelope: envelope.update(role="candidate"))
    assert world.up(revisions=(world.r1,)).fields["verdict"] == "reject"
    world.ledger.path.unlink()
    bad.unlink()
    assert problem(world.preview(revisions=(world.r1,)))[0] == "ledger"


def test_evidence_that_was_ahead_of_its_time_counts_when_the_time_has_come(world: World) -> None:
    world.serving_r1()
    world.evidence.both()
    early = world.up(candidate=world.r2, as_of="2026-11-30T03:00:00Z").fields
    assert early["verdict"] == "insufficient_evidence"
    assert "clock" in str(early["reasons"])
    assert world.up(candidate=world.r2).fields["activeRevision"] == world.r2


# --- overrides --------------------------------------------------------------------------------------------------

ANN = key_of("ann")


def order(target: str, key: str = "ann", reason: str = "r1 leaks") -> str:
    return sign_override(
        key_of(key),
        service="chat",
        stack="lab/dev",
        target=target,
        owner="ann",
        reason=reason,
        issued_at=parse_time("2026-11-30T05:00:00Z"),
        expires_at=parse_time("2026-11-30T06:00:00Z"),
    )


@pytest.fixture
def guarded(world: World) -> World:
    """r1 serves, and Ann may override the guard."""
    world.policy = "bootstrap: true\n" + trusting(entry(ANN, kinds=["override"]))
    return world.serving_r1()


def test_an_override_moves_the_route_without_evidence(guarded: World) -> None:
    fields = guarded.up(candidate=guarded.r2, override=order(guarded.r2)).fields
    assert (fields["activeRevision"], fields["previousRevision"]) == (guarded.r2, guarded.r1)
    assert (fields["decisionType"], fields["action"]) == ("override", "flip")
    assert fields["expiresAt"] == "2026-11-30T06:00:00Z"
    assert fields["reasons"] == ["override: r1 leaks (ordered by ann)"]


def test_an_override_stands_in_the_ledger_with_its_signature(guarded: World) -> None:
    guarded.up(candidate=guarded.r2, override=order(guarded.r2))
    record = [entry.decision for entry in guarded.ledger.entries()][-1]
    assert record["override"]["owner"] == "ann"
    assert record["override"]["attestation"]["signatures"][0]["keyid"] == ANN.id


def test_nothing_changes_in_the_run_after_an_override(guarded: World) -> None:
    decided = guarded.up(candidate=guarded.r2, override=order(guarded.r2)).fields
    after = guarded.up(candidate=guarded.r2)
    assert after.decision is None
    assert after.fields == decided


def test_an_override_can_be_rolled_back_and_does_not_come_back_by_itself(guarded: World) -> None:
    asked = order(guarded.r2)
    guarded.up(candidate=guarded.r2, override=asked)
    fields = guarded.up(candidate=guarded.r2, rollback_to="previous", rollback_reason="worse").fields
    assert fields["activeRevision"] == guarded.r1
    assert guarded.up(candidate=guarded.r2).fields["verdict"] == "insufficient_evidence"
    where, why = problem(guarded.preview(candidate=guarded.r2, override=asked))
    assert (where, "used already" in why) == ("override", True)
    assert guarded.up(override=order(guarded.r2, reason="better after all")).fields["activeRevision"] == guarded.r2


def test_a_second_press_of_the_same_override_changes_nothing(guarded: World) -> None:
    asked = order(guarded.r2)
    decided = guarded.up(candidate=guarded.r2, override=asked).fields
    assert guarded.up(candidate=guarded.r2, override=asked).fields == decided


def test_an_override_may_go_to_a_revision_that_is_no_candidate(guarded: World) -> None:
    fields = guarded.up(candidate="", override=order(guarded.r2)).fields
    assert fields["activeRevision"] == guarded.r2


def test_an_override_needs_no_evidence_that_can_be_read(guarded: World) -> None:
    guarded.evidence.both()
    references = reference_folder(guarded.evidence.root)
    next(guarded.evidence.root.glob("*.evidence.json")).write_text("{")
    outcome = guarded.preview(candidate=guarded.r2, evidence=references, override=order(guarded.r2))
    assert outcome.fields["activeRevision"] == guarded.r2


def test_an_override_by_somebody_else_is_refused(guarded: World) -> None:
    where, why = problem(guarded.preview(candidate=guarded.r2, override=order(guarded.r2, key="mallory")))
    assert where == "override"
    assert "untrusted_key" in why


def test_under_a_policy_that_trusts_nobody_there_is_no_override(world: World) -> None:
    where, why = problem(world.serving_r1().preview(candidate=world.r2, override=order(world.r2)))
    assert where == "override"
    assert "trusts no key" in why


def test_an_override_that_is_too_late_is_refused(guarded: World) -> None:
    late = {"as_of": "2026-11-30T06:00:00Z", "override": order(guarded.r2)}
    assert "expired" in problem(guarded.preview(candidate=guarded.r2, **late))[1]


def test_an_override_is_never_taken_without_a_time_to_judge_it_at(guarded: World) -> None:
    outcome = guarded.preview(candidate=guarded.r2, as_of="", override=order(guarded.r2))
    assert "as_of" in outcome.problems[0][1]


def test_an_override_to_what_is_not_declared_is_refused(guarded: World) -> None:
    where, why = problem(guarded.preview(override=order("sha256:" + "0" * 64)))
    assert (where, "not among the declared revisions" in why) == ("override", True)


def test_an_override_is_not_how_the_first_revision_comes_to_serve(world: World) -> None:
    world.policy = "bootstrap: true\n" + trusting(entry(ANN, kinds=["override"]))
    where, why = problem(world.preview(initial_active=world.r1, override=order(world.r2)))
    assert (where, "nothing serves yet" in why) == ("override", True)


def test_a_flip_by_override_whose_state_was_never_written_is_caught_up_with(guarded: World) -> None:
    before = dict(guarded.state)
    decided = guarded.up(candidate=guarded.r2, override=order(guarded.r2)).fields
    guarded.state = before | {"activeRevision": guarded.r2, "servedDecision": decided["decisionId"]}
    fields = guarded.up(candidate=guarded.r2).fields
    assert (fields["decisionId"], fields["previousRevision"]) == (decided["decisionId"], guarded.r1)
