"""Signed evidence counts when a listed key vouches for exactly these bytes; every other way in is closed."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard import load_evidence, load_policy
from pulumi_infercrane.guard.canonical import canonical_bytes
from pulumi_infercrane.guard.evidence import seal
from pulumi_infercrane.guard.trust.dsse import OVERRIDE_TYPE, to_base64
from tests.guard.trust.conftest import POLICY, entry, key_of, sign, trusting


@pytest.fixture
def path(folder):
    """One good measurement of the candidate, not signed yet."""
    return folder.benchmark("candidate", folder.seconds(300))


@pytest.fixture
def policy(bench):
    return trusting(entry(bench))


def because(decision):
    """The reason why the only piece of evidence does not count."""
    (piece,) = decision.record["evidence"]
    assert not piece["used"]
    assert decision.verdict == "insufficient_evidence"
    return piece["reasons"][0]


# --- what counts ------------------------------------------------------------------------------------------------


def test_evidence_signed_by_a_listed_key_counts_and_the_record_says_whose(folder, path, policy, bench):
    sign(path, bench)
    decision = folder.decide(policy=policy)
    assert decision.verdict == "promote"
    assert decision.record["signers"] == [bench.id]
    assert decision.record["evidence"][0]["signers"] == [bench.id]


def test_a_policy_without_trust_asks_for_nothing_and_records_nothing(folder, path, bench, mallory):
    plain = folder.decide(policy=POLICY)
    sign(path, bench, mallory)
    decision = folder.decide(policy=POLICY)
    assert (plain.verdict, decision.verdict) == ("promote", "promote")
    assert "signers" not in decision.record
    assert "signers" not in decision.record["evidence"][0]


def test_one_listed_key_is_enough_beside_keys_nobody_listed(folder, path, policy, bench, mallory):
    sign(path, mallory, bench)
    assert folder.decide(policy=policy).record["signers"] == [bench.id]


def test_all_listed_keys_that_count_are_named_in_one_order(folder, path, bench):
    second = key_of("second")
    policy = trusting(entry(bench), entry(second))
    sign(path, bench, second)
    first = folder.decide(policy=policy)
    sign(path, change=lambda e: e["attestation"]["signatures"].reverse())
    again = folder.decide(policy=policy)
    assert first.record["signers"] == again.record["signers"] == sorted([bench.id, second.id])


def test_a_key_that_may_not_speak_leaves_the_word_to_one_that_may(folder, path, bench):
    policy = trusting(entry(bench), entry(key_of("old"), not_after="2026-02-01T00:00:00Z"))
    sign(path, key_of("old"), bench)
    assert folder.decide(policy=policy).record["signers"] == [bench.id]


def test_signers_of_evidence_that_is_not_used_vouch_for_nothing(folder, path, policy, bench):
    sign(path, bench)
    decision = folder.decide(policy=policy, as_of="2026-12-30T00:00:00Z")
    assert because(decision).startswith("stale")
    assert decision.record["signers"] == []


# --- what does not ----------------------------------------------------------------------------------------------


def test_unsigned(folder, path, policy):
    reason = "unsigned: the policy requires a signature; add one with `infercrane guard sign`"
    assert because(folder.decide(policy=policy)) == reason


def test_signed_by_a_key_nobody_listed(folder, path, policy, mallory):
    sign(path, mallory)
    assert because(folder.decide(policy=policy)).endswith("…, which the policy does not list")
    assert because(folder.decide(policy=policy)).startswith(f"untrusted_key: signed by {mallory.id[:19]}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kinds": ["quality"]}, "may attest quality only, not benchmark"),
        ({"kinds": ["override"]}, "may attest override only, not benchmark"),
        (
            {"not_before": "2026-11-30T04:02:01Z"},
            "is valid from 2026-11-30T04:02:01Z on, this is of 2026-11-30T04:02:00Z: "
            "set its `not_before` earlier, or measure again",
        ),
        ({"not_after": "2026-11-30T04:01:59Z"}, "was valid until 2026-11-30T04:01:59Z"),
        ({"revoked_at": "2026-12-01T00:00:00Z"}, "was revoked at 2026-12-01T00:00:00Z"),
        (
            {"revoked_at": "2026-11-30T04:02:00Z", "count_before_revocation": True},
            "was revoked at 2026-11-30T04:02:00Z",
        ),
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_listed_key_that_may_not_attest_this(folder, path, bench, changes, reason, required):
    sign(path, bench)
    decision = folder.decide(policy=trusting(entry(bench, **changes), require_signatures=required))
    assert because(decision) == f"untrusted_key: key {bench.id[:19]}… {reason}"


def broken(change):
    return lambda envelope: change(envelope["attestation"]["signatures"][0])


@pytest.mark.parametrize(
    "change",
    [
        broken(lambda s: s.update(sig=s["sig"][:-4])),
        broken(lambda s: s.update(sig=s["sig"] + "\n")),
        broken(lambda s: s.update(sig=" " + s["sig"])),
        broken(lambda s: s.update(sig=s["sig"].rstrip("="))),
        broken(lambda s: s.update(sig=s["sig"][:44] + "\n" + s["sig"][44:])),
        broken(lambda s: s.update(sig=to_base64(bytes(64)))),
        broken(lambda s: s.update(sig="x")),
        lambda e: e["attestation"].update(payloadType="application/json"),
        lambda e: e["attestation"].update(payloadType=OVERRIDE_TYPE),
        lambda e: e["attestation"]["signatures"].append(e["attestation"]["signatures"][0]),
        lambda e: e["attestation"]["signatures"].append(e["attestation"]["signatures"][0] | {"sig": "x"}),
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_signature_that_was_touched_is_invalid(folder, path, bench, change, required):
    sign(path, bench, change=change)
    decision = folder.decide(policy=trusting(entry(bench), require_signatures=required))
    assert because(decision).startswith("signature_invalid: ")


@pytest.mark.parametrize("place", ["attestation", "signature"])
def test_a_key_inside_the_envelope_is_refused_whole(folder, path, policy, mallory, place):
    sign(path, mallory, change=lambda e: carry_key(e, place, mallory))
    assert because(folder.decide(policy=policy)).startswith("schema_unknown: attestation.")


def carry_key(envelope, place, key):
    holder = envelope["attestation"] if place == "attestation" else envelope["attestation"]["signatures"][0]
    holder["public_key"] = to_base64(key.public_key)


def test_the_name_of_a_listed_key_over_the_signature_of_another(folder, path, policy, bench, mallory):
    sign(path, mallory, change=broken(lambda s: s.update(keyid=bench.id)))
    assert because(folder.decide(policy=policy)).startswith("signature_invalid: ")


def test_the_signature_of_another_envelope(folder, path, policy, bench):
    other = sign(folder.benchmark("baseline"), bench)
    path_of_other = folder.root / "benchmark-baseline.evidence.json"
    path_of_other.unlink()
    sign(path, change=lambda e: e.update(attestation=other["attestation"]))
    assert because(folder.decide(policy=policy)).startswith("signature_invalid: ")


def test_evidence_sealed_again_after_an_edit(folder, policy, bench):
    path = folder.benchmark("candidate", folder.seconds(300), failed=200)
    sign(path, bench)
    attestation = json.loads(path.read_text())["attestation"]
    path = folder.benchmark("candidate", folder.seconds(300))  # another raw file, hashed and sealed anew
    sign(path, change=lambda e: e.update(attestation=attestation))
    assert because(folder.decide(policy=policy)).startswith("signature_invalid: ")


def test_an_edit_that_left_the_id_is_tampered_first(folder, path, policy, bench):
    sign(path, bench, change=lambda e: e["planned"].update(requests=1))
    assert because(folder.decide(policy=policy)).startswith("tampered: ")


def test_good_evidence_beside_an_invalid_signature_does_not_help(folder, path, policy, bench):
    sign(path, bench)
    second = folder.benchmark("candidate", folder.seconds(300, seed=3), name="second")
    sign(second, bench, change=broken(lambda s: s.update(sig=to_base64(bytes(64)))))
    decision = folder.decide(policy=policy)
    assert decision.verdict == "insufficient_evidence"
    assert decision.record["first_reason"] == "benchmark: signature_invalid"


def test_a_bad_result_does_not_go_away_with_its_signature(folder, policy, bench):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=60, name="bad")
    sign(bad, bench)
    rejected = folder.decide(policy=policy)
    assert rejected.verdict == "reject"
    sign(folder.benchmark("candidate", folder.seconds(300, seed=5), name="good"), bench)
    for change in (lambda e: e.pop("attestation"), broken(lambda s: s.update(keyid=key_of("x").id))):
        sign(bad, bench, change=change)
        decision = folder.decide(policy=policy, history=[rejected.record])
        assert decision.verdict == "insufficient_evidence"
        assert decision.record["first_reason"] == "benchmark: evidence_withdrawn"


# --- where signatures are not required --------------------------------------------------------------------------


def test_unsigned_evidence_and_unknown_keys_count_where_signatures_are_not_required(folder, path, bench, mallory):
    policy = trusting(entry(bench), require_signatures=False)
    assert folder.decide(policy=policy).record["signers"] == []
    sign(path, mallory)
    decision = folder.decide(policy=policy)
    assert (decision.verdict, decision.record["signers"]) == ("promote", [])


# --- properties -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(new_folder):
    """A signed envelope in its shortest form, its folder, and a policy that trusts its key."""
    bench = key_of("bench")
    folder = new_folder()
    path = folder.benchmark("candidate", folder.seconds(20))
    path.write_bytes(canonical_bytes(sign(path, bench)))
    return folder, path.read_bytes(), trusting(entry(bench))


@settings(max_examples=150)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_byte_changed_makes_signed_evidence_inadmissible(whole, place, byte):
    folder, data, policy = whole
    place %= len(data)
    byte = byte if byte != data[place] else (byte + 1) % 256
    (folder.root / "benchmark-candidate.evidence.json").write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
    (piece,) = folder.decide(policy=policy).record["evidence"]
    assert not piece["used"]


def test_unchanged_it_counts(whole):
    folder, data, policy = whole
    (folder.root / "benchmark-candidate.evidence.json").write_bytes(data)
    (piece,) = folder.decide(policy=policy).record["evidence"]
    assert piece["used"]


def test_layout_is_not_content(whole):
    folder, data, policy = whole
    (folder.root / "benchmark-candidate.evidence.json").write_text(json.dumps(json.loads(data), indent=7))
    (piece,) = folder.decide(policy=policy).record["evidence"]
    assert piece["used"]


def test_what_was_verified_is_what_is_judged(whole):
    """Nothing in the typed envelope but its id and its signatures comes from outside the signed bytes."""
    folder, data, _ = whole
    (folder.root / "benchmark-candidate.evidence.json").write_bytes(data)
    (item,) = load_evidence(folder.root).items
    typed = item.envelope.model_dump(mode="json", by_alias=True, exclude_unset=True)
    del typed["attestation"]
    assert typed == seal(json.loads(item.body))


def test_the_same_bytes_come_out_elsewhere(folder, path, policy, bench):
    sign(path, bench)
    first = folder.decide(policy=policy)
    with tempfile.TemporaryDirectory() as elsewhere:
        for file in folder.root.iterdir():
            (Path(elsewhere) / file.name).write_bytes(file.read_bytes())
        assert folder.decide(policy=policy, evidence=load_evidence(Path(elsewhere))).canonical == first.canonical


def test_without_signatures_no_cryptography_is_loaded(folder, path):
    script = (
        "import sys; from pathlib import Path; from pulumi_infercrane.guard import *\n"
        "root, policy, c, b, t = sys.argv[1:]\n"
        "asked = {'service': 'chat', 'stack': 'dev', 'candidate': c, 'baseline': b, 'as_of': t}\n"
        "decide(load_policy(policy), load_evidence(Path(root)), **asked)\n"
        "print('cryptography' in sys.modules)"
    )
    arguments = [str(folder.root), POLICY, folder.candidate, folder.baseline, "2026-11-30T05:00:00Z"]
    run = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=True, text=True)
    assert run.stdout.split() == ["False"]


def test_the_digest_of_the_policy_covers_its_keys(bench):
    assert load_policy(trusting(entry(bench))).digest != load_policy(trusting(entry(bench, kinds=["quality"]))).digest
