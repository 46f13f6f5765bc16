"""An override is an order by a named person, for one move, for a short time; anything else is refused."""

import json

import pytest

from pulumi_infercrane.guard import OverrideError, PolicyError, load_policy, override, read_override, sign_override
from pulumi_infercrane.guard.canonical import canonical_bytes, digest
from pulumi_infercrane.guard.overrides import MAX_BYTES
from pulumi_infercrane.guard.report import text
from pulumi_infercrane.guard.times import parse_time
from pulumi_infercrane.guard.trust.dsse import EVIDENCE_TYPE
from pulumi_infercrane.guard.trust.signing import attestation
from pulumi_infercrane.guard.verification import recompute
from tests.guard.trust.conftest import POLICY, entry, key_of, trusting

ANN, BENCH = key_of("ann"), key_of("bench")
TARGET, ACTIVE = "sha256:" + "3" * 64, "sha256:" + "2" * 64
ISSUED, USED, EXPIRES = "2026-11-30T05:00:00Z", "2026-11-30T05:00:10Z", "2026-11-30T06:00:00Z"
TRUSTING = trusting(entry(ANN, kinds=["override"]), entry(BENCH))


def order(key=ANN, **changes):
    asked = {"service": "chat", "stack": "lab/prod", "target": TARGET, "owner": "ann", "reason": "r2 leaks"}
    asked |= {"issued_at": parse_time(ISSUED), "expires_at": parse_time(EXPIRES)}
    return sign_override(key, **(asked | changes))


def obey(asked=None, policy=TRUSTING, **changes):
    facts = {"service": "chat", "stack": "lab/prod", "active": ACTIVE, "as_of": USED}
    return override(load_policy(policy), read_override(asked or order()), **(facts | changes))


def refused(expected, *arguments, **changes):
    with pytest.raises(OverrideError, match=expected):
        obey(*arguments, **changes)


def test_an_order_by_somebody_who_may_moves_the_route():
    decision = obey()
    assert (decision.decision_type, decision.verdict, decision.action) == ("override", "promote", "flip")
    assert decision.reasons == ("override: r2 leaks (ordered by ann)",)
    assert decision.expires_at == EXPIRES
    record = decision.record
    assert (record["candidate"], record["baseline"], record["expected_active"]) == (TARGET, ACTIVE, ACTIVE)
    assert record["signers"] == [ANN.id]
    assert record["override"] == json.loads(order())
    assert record["first_reason"] == "override"


def test_the_record_can_be_computed_again_signature_included():
    record = obey(previous_decision_id=digest("x")).record
    assert canonical_bytes(recompute(record, load_policy(TRUSTING), None).record) == canonical_bytes(record)
    forged = {**record, "override": {**record["override"], "reason": "all is well"}}
    with pytest.raises(OverrideError, match="signature_invalid"):
        recompute(forged, load_policy(TRUSTING), None)


def test_the_report_says_that_there_was_no_evidence():
    assert text.render(obey().record).startswith("OVERRIDE: the target takes over by order, without evidence\n")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"service": "talk"}, "is for service 'chat' of stack lab/prod, not for 'talk' of lab/prod"),
        ({"stack": "lab/dev"}, "is for service 'chat' of stack lab/prod, not for 'chat' of lab/dev"),
        ({"active": TARGET}, "already serves"),
        ({"as_of": EXPIRES}, "expired at 2026-11-30T06:00:00Z"),
    ],
)
def test_an_order_is_for_one_move_and_a_time(facts, expected):
    refused(expected, **facts)


def test_an_order_is_used_once_whoever_signs_it_again():
    used = [obey().record]
    refused("used already", history=used)
    again = json.loads(order())
    extra = attestation("t", b"", key_of("mallory"), again["attestation"])["signatures"]
    again["attestation"]["signatures"] = extra
    refused("used already", json.dumps(again), history=used)
    assert obey(order(reason="and again"), history=used).verdict == "promote"


def test_a_policy_that_trusts_nobody_cannot_be_overridden():
    refused(r"trusts no key.*list one under trust\.keys with 'kinds: \[override\]'", policy=POLICY)


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (key_of("mallory"), "untrusted_key: signed by sha256:.*, which the policy does not list"),
        (BENCH, "untrusted_key: key .* may attest benchmark only, not override"),
    ],
)
def test_a_key_without_that_right_orders_nothing(key, expected, required):
    policy = trusting(entry(ANN, kinds=["override"]), entry(BENCH), require_signatures=required)
    refused(expected, order(key), policy)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"not_before": "2026-11-30T05:00:11Z"}, "is valid from"),
        ({"not_after": "2026-11-30T05:00:09Z"}, "was valid until"),
        ({"revoked_at": "2026-11-30T05:00:10Z", "count_before_revocation": True}, "was revoked"),
    ],
)
def test_the_key_is_judged_at_the_time_of_use(changes, expected):
    refused(expected, policy=trusting(entry(ANN, kinds=["override"], **changes)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", "sha256:" + "4" * 64),
        ("owner", "bob"),
        ("reason", "x"),
        ("expires_at", "2027-01-01T00:00:00Z"),
        ("issued_at", "2026-11-29T00:00:00Z"),
    ],
)
def test_an_edited_order_is_invalid(name, value):
    refused("signature_invalid", json.dumps(json.loads(order()) | {name: value}))


def test_evidence_signed_by_the_same_key_is_no_order():
    document = json.loads(order())
    body = canonical_bytes({name: value for name, value in document.items() if name != "attestation"})
    document["attestation"] = attestation(EVIDENCE_TYPE, body, ANN)
    refused("signature_invalid: payloadType is", json.dumps(document))
    document["attestation"]["payloadType"] = "application/vnd.infercrane.override+json"
    refused("signature_invalid: what key", json.dumps(document))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("{", "not_json"),
        ("[]", "schema is not infercrane.override/v1"),
        ('{"schema": "infercrane.evidence/v1"}', "schema is not infercrane.override/v1"),
        ('{"schema": "infercrane.override/v1"}', "service: is missing"),
        (order().replace('"owner"', '"by"'), "owner: is missing"),
        (order().replace('"chat"', '"chat","urgent":true'), "urgent: unknown field"),
        (order().replace('"owner":"ann"', '"owner":" "'), "owner: must not be blank"),
        (order().replace('"reason":"r2 leaks"', '"reason":"\\ud800"'), "no canonical JSON form"),
        (order().replace(TARGET, "r3"), "target: "),
        (order().replace("{", '{"target":1,', 1), "duplicate_key"),
        (" " * (MAX_BYTES + 1), "oversize"),
        ("\ud800", "surrogates"),
    ],
)
def test_what_is_no_order_is_refused(asked, expected):
    refused(expected, asked)


@pytest.mark.parametrize("changes", [{"owner": " "}, {"reason": ""}, {"expires_at": parse_time(ISSUED)}])
def test_no_order_without_owner_reason_and_an_end_in_the_future(changes):
    with pytest.raises(OverrideError, match=r"owner|reason|before it is issued"):
        order(**changes)


def test_a_policy_of_another_service_is_refused():
    with pytest.raises(PolicyError, match="for service 'search'"):
        obey(policy=TRUSTING + "service: search\n")
