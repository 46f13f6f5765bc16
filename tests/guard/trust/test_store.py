"""The keys a policy trusts: written out in full, or refused with the line."""

from datetime import UTC, datetime

import pytest

from pulumi_infercrane.guard import PolicyError, load_policy
from pulumi_infercrane.guard.trust.store import policy_lines
from tests.guard.trust.conftest import POLICY, entry, key_of, trusting

KEY = key_of("bench")
EARLIER = ": set its `not_before` earlier, or measure again"


def at(day):
    return datetime.fromisoformat(f"{day}T00:00:00+00:00")


def listed(**changes):
    (key,) = load_policy(trusting(entry(KEY, **changes))).trust.keys.values()
    return key


def test_a_policy_without_trust_has_none():
    assert load_policy(POLICY).trust is None


def test_signatures_are_required_unless_the_policy_says_otherwise():
    assert load_policy(trusting(entry(KEY))).trust.require_signatures
    assert not load_policy(trusting(entry(KEY), require_signatures=False)).trust.require_signatures


def test_a_whole_entry():
    key = listed(kinds=["quality", "benchmark"], revoked_at="2026-06-01T00:00:00Z", count_before_revocation=True)
    assert (key.id, key.public_key, key.kinds) == (KEY.id, KEY.public_key, ("benchmark", "quality"))
    assert (key.not_before, key.not_after, key.revoked_at) == (at("2026-01-01"), at("2026-12-31"), at("2026-06-01"))
    assert key.count_before_revocation


def test_the_lines_for_a_policy_are_what_a_policy_reads():
    lines = policy_lines(KEY.public_key, ("benchmark",), at("2026-01-01"), at("2026-12-31"))
    assert load_policy(f"{POLICY}trust:\n  keys:\n{lines}\n").trust == load_policy(trusting(entry(KEY))).trust


@pytest.mark.parametrize(
    ("changes", "kind", "day", "refusal"),
    [
        ({}, "benchmark", "2026-01-01", ""),
        ({}, "benchmark", "2026-12-31", ""),
        (
            {},
            "benchmark",
            "2025-12-31",
            f"is valid from 2026-01-01T00:00:00Z on, this is of 2025-12-31T00:00:00Z{EARLIER}",
        ),
        ({}, "benchmark", "2027-01-01", "was valid until 2026-12-31T00:00:00Z"),
        ({}, "quality", "2026-06-01", "may attest benchmark only, not quality"),
        ({"revoked_at": "2026-06-01T00:00:00Z"}, "benchmark", "2026-05-31", "was revoked at 2026-06-01T00:00:00Z"),
        ({"revoked_at": "2026-06-01T00:00:00Z"}, "benchmark", "2026-06-01", "was revoked at 2026-06-01T00:00:00Z"),
    ],
)
def test_what_a_key_may_and_when(changes, kind, day, refusal):
    assert listed(**changes).refusal(kind, at(day)) == refusal


@pytest.mark.parametrize(("day", "counts"), [("2026-05-31", True), ("2026-06-01", False), ("2026-06-02", False)])
def test_a_retired_key_counts_until_it_was_retired(day, counts):
    key = listed(revoked_at="2026-06-01T00:00:00Z", count_before_revocation=True)
    assert (key.refusal("benchmark", at(day)) == "") is counts


OTHER = entry(key_of("other"))


@pytest.mark.parametrize(
    ("trust", "expected"),
    [
        ("trust: [a]", ":4: trust: a mapping was expected"),
        ("trust: {}", ":4: trust: 'keys' is missing"),
        ("trust: {keys: []}", ":4: keys is empty"),
        ("trust: {keys: [], key: 1}", ":4: unknown key 'key', did you mean 'keys'"),
        (trusting(entry(KEY), require_signatures="yes"), ":4: require_signatures: 'yes' is not one of true, false"),
        (trusting(entry(KEY), entry(KEY)), f":4: key {KEY.id} is written twice"),
        (trusting(entry(KEY, id=OTHER["id"])), ":4: id is not the digest of this public_key, which is " + KEY.id),
        (trusting(entry(KEY, id=KEY.id[:23])), ":4: id is not the digest of this public_key"),
        (trusting(entry(KEY, public_key=OTHER["public_key"])), ":4: id is not the digest of this public_key"),
        (trusting(entry(KEY, public_key="AAAA")), ":4: public_key: not the base64 of 32 bytes"),
        (trusting(entry(KEY, public_key=entry(KEY)["public_key"][:-1])), ":4: public_key: not base64"),
        (trusting(entry(KEY, kinds=[])), ":4: kinds is empty"),
        (trusting(entry(KEY, kinds=["benchmrk"])), ":4: kinds: 'benchmrk' is not one of benchmark, .*override"),
        (trusting(entry(KEY, not_before="2026-11-01")), ":4: not_before: '2026-11-01' is not a UTC time"),
        (trusting(entry(KEY, not_after=entry(KEY)["not_before"])), ":4: not_after: must be later than not_before"),
        (trusting(entry(KEY, revoked_at="soon")), ":4: revoked_at: 'soon' is not a UTC time"),
        (trusting(entry(KEY, count_before_revocation=True)), ":4: count_before_revocation: says nothing without"),
        (trusting({k: v for k, v in entry(KEY).items() if k != "not_after"}), ":4: keys: 'not_after' is missing"),
        (trusting(entry(KEY, not_aftr="x")), ":4: unknown key 'not_aftr', did you mean 'not_after'"),
    ],
)
def test_refused_with_the_line(trust, expected):
    with pytest.raises(PolicyError, match=expected):
        load_policy(trust if trust.startswith("schema") else POLICY + trust)


def test_times_are_in_utc():
    assert listed().not_before.tzinfo is UTC
