"""A year of keys: one is rotated, one retired, one stolen."""

import pytest

from tests.guard.trust.conftest import entry, key_of, sign, trusting

OLD, NEW = key_of("bench 2026"), key_of("bench 2027")

SIGNED_AT = "2026-11-30T04:02:00Z"  # when the measurement of every chapter ended
BEFORE, AFTER = "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"


@pytest.fixture
def verdict(folder):
    """The verdict on one measurement by some keys, under a policy with some keys."""

    def ask(*signers, policy):
        sign(folder.benchmark("candidate", folder.seconds(300)), *signers)
        return folder.decide(policy=policy).verdict

    return ask


def test_a_key_is_rotated_without_a_gap(verdict):
    """Both are listed for a while; runners change over one by one; then the old one is taken out."""
    only_old = trusting(entry(OLD))
    assert verdict(OLD, policy=only_old) == "promote"
    assert verdict(NEW, policy=only_old) == "insufficient_evidence"

    both = trusting(entry(OLD), entry(NEW))
    assert verdict(OLD, policy=both) == "promote"
    assert verdict(NEW, policy=both) == "promote"
    assert verdict(OLD, NEW, policy=both) == "promote"

    only_new = trusting(entry(NEW))
    assert verdict(OLD, policy=only_new) == "insufficient_evidence"
    assert verdict(NEW, policy=only_new) == "promote"
    assert verdict(OLD, NEW, policy=only_new) == "promote"


def test_a_key_whose_successor_was_announced_hands_over_at_an_hour(verdict):
    handover = trusting(entry(OLD, not_after=BEFORE), entry(NEW, not_before=BEFORE))
    assert verdict(OLD, policy=handover) == "insufficient_evidence"
    assert verdict(NEW, policy=handover) == "promote"


def test_a_retired_key_keeps_its_word_given_before(verdict):
    retired = {"count_before_revocation": True}
    assert verdict(OLD, policy=trusting(entry(OLD, revoked_at=AFTER, **retired))) == "promote"
    assert verdict(OLD, policy=trusting(entry(OLD, revoked_at=SIGNED_AT, **retired))) == "insufficient_evidence"
    assert verdict(OLD, policy=trusting(entry(OLD, revoked_at=BEFORE, **retired))) == "insufficient_evidence"


def test_a_stolen_key_loses_its_word_for_all_times(verdict):
    """A thief writes any time he likes into what he signs, so nothing signed with it counts by default."""
    assert verdict(OLD, policy=trusting(entry(OLD, revoked_at=AFTER))) == "insufficient_evidence"
    assert verdict(OLD, policy=trusting(entry(OLD, revoked_at=BEFORE))) == "insufficient_evidence"


def test_after_a_theft_the_measurement_is_signed_again_with_the_new_key(verdict):
    stolen = trusting(entry(OLD, revoked_at=BEFORE), entry(NEW))
    assert verdict(OLD, policy=stolen) == "insufficient_evidence"
    assert verdict(OLD, NEW, policy=stolen) == "promote"


def test_a_revocation_changes_the_policy_and_so_voids_what_was_decided(folder):
    sign(folder.benchmark("candidate", folder.seconds(300)), OLD)
    before = folder.decide(policy=trusting(entry(OLD)))
    after = folder.decide(policy=trusting(entry(OLD, revoked_at=AFTER)), history=[before.record])
    assert (before.verdict, after.verdict) == ("promote", "insufficient_evidence")
    assert after.record["first_reason"] == "benchmark: untrusted_key"
    assert before.policy_digest != after.policy_digest
