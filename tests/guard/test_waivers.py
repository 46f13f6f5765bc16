"""Waivers: a reviewed exception for one soft rule of one revision, for a time, and visible as such."""

import pytest

from pulumi_infercrane.guard.report import text

DIGEST = "sha256:" + "0" * 64

WAIVER = (
    "waivers:\n  - {{rule: {rule}, reason: known, owner: ann, expires_at: {until}, revision_digest: '{revision}'}}\n"
)


@pytest.mark.parametrize(
    ("soft", "until", "mine", "state", "verdict"),
    [
        (True, "2026-12-31T00:00:00Z", True, "applies", "promote"),
        (True, "2026-11-30T05:00:00Z", True, "expired", "reject"),
        (True, "2026-12-31T00:00:00Z", False, "other_revision", "reject"),
        (False, "2026-12-31T00:00:00Z", True, "hard_rule", "reject"),
    ],
)
def test_a_waiver_covers_one_soft_rule_of_one_revision_for_a_time(folder, soft, until, mine, state, verdict):
    folder.both().quality("candidate", [0.0] * 40 + [1.0] * 20)
    policy = folder.policy.replace("quality.basics,", f"quality.basics, class: {'S' if soft else 'H'},")
    policy += WAIVER.format(rule="quality.basics", until=until, revision=folder.candidate if mine else DIGEST)
    decision = folder.decide(policy=policy)
    assert decision.verdict == verdict
    assert decision.record["waivers"][0]["state"] == state
    if verdict == "promote":
        assert decision.record["rules"][2]["outcome"] == "waived"


def test_a_waiver_does_not_turn_missing_evidence_into_a_pass(folder):
    folder.both()
    (folder.root / "quality-candidate.evidence.json").unlink()
    policy = folder.policy.replace("quality.basics,", "quality.basics, class: S,")
    policy += WAIVER.format(rule="quality.basics", until="2026-12-31T00:00:00Z", revision=folder.candidate)
    assert folder.decide(policy=policy).verdict == "insufficient_evidence"


LATER = "2026-12-31T00:00:00Z"


@pytest.fixture
def failing(folder):
    """The candidate loses too many items; the rule that says so is soft."""
    folder.both().quality("candidate", [0.0] * 40 + [1.0] * 20)
    folder.policy = folder.policy.replace("quality.basics,", "quality.basics, class: S,")
    return folder


def decide(folder, *waivers):
    """The decision under waivers `(rule, until, revision)`."""
    entries = "".join(
        f"  - {{rule: {rule}, reason: known, owner: ann, expires_at: {until}, revision_digest: '{revision}'}}\n"
        for rule, until, revision in waivers
    )
    return folder.decide(policy=folder.policy + "waivers:\n" + entries)


def test_a_waived_fail_is_shown_as_waived_with_its_figures_and_never_as_a_pass(failing):
    decision = decide(failing, ("quality.basics", LATER, failing.candidate))
    rule = decision.record["rules"][2]
    assert (rule["outcome"], rule["reasons"]) == ("waived", ["waived"])
    assert rule["hi"] < rule["limit"]
    assert any(reason.startswith("quality.basics: waived: difference -0.645") for reason in decision.reasons)
    assert decision.record["waivers"] == [
        {"rule": "quality.basics", "reason": "known", "owner": "ann", "expires_at": LATER, "state": "applies"}
    ]


@pytest.mark.parametrize(
    ("until", "mine", "state"),
    [("2026-11-30T05:00:00Z", True, "expired"), (LATER, False, "other_revision")],
)
def test_a_waiver_that_does_not_apply_is_reported(failing, until, mine, state):
    decision = decide(failing, ("quality.basics", until, failing.candidate if mine else DIGEST))
    assert decision.record["first_reason"] == "quality.basics: margin_exceeded"
    assert f"waiver of quality.basics by ann until {until} ({state}): known" in text.render(decision.record)


def test_a_waiver_covers_no_other_rule(failing):
    failing.benchmark("candidate", failing.seconds(150), failed=60)
    decision = decide(failing, ("quality.basics", LATER, failing.candidate))
    assert decision.verdict == "reject"
    assert decision.record["first_reason"] == "benchmark.error_fraction: limit_exceeded"


def test_a_decision_ends_with_the_waiver_it_rests_on(failing):
    until = "2026-12-01T00:00:00Z"
    assert decide(failing, ("quality.basics", until, failing.candidate)).expires_at == until
    both = [("quality.basics", end, failing.candidate) for end in (until, "2026-12-02T00:00:00Z")]
    assert decide(failing, *both).expires_at == "2026-12-02T00:00:00Z"


def test_a_decision_does_not_end_with_a_waiver_that_does_not_apply(failing):
    until = "2026-12-01T00:00:00Z"
    others = [("quality.basics", LATER, DIGEST), ("quality.basics", "2026-11-29T00:00:00Z", failing.candidate)]
    assert decide(failing, ("quality.basics", until, failing.candidate), *others).expires_at == until


def test_a_waiver_nobody_needed_ends_nothing(failing):
    failing.quality("candidate")
    decision = decide(failing, ("quality.basics", "2026-12-01T00:00:00Z", failing.candidate))
    assert (decision.verdict, decision.expires_at) == ("promote", "2026-12-07T04:02:00Z")
