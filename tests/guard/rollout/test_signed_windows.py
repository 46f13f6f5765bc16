"""Where a policy requires signatures, windows need one by a key it trusts with them; others are refused by name."""

import json

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard import Ledger, load_policy, new_key, post_promotion, read_window, signed_window
from pulumi_infercrane.guard.canonical import canonical_bytes
from pulumi_infercrane.guard.trust.dsse import EVIDENCE_TYPE
from pulumi_infercrane.guard.trust.signing import attestation
from pulumi_infercrane.stacks.cli.guard import command
from tests.guard.rollout.conftest import POLICY, alone, flipped, loaded, minutes, opened, pair, step, watched
from tests.guard.trust.conftest import entry, key_of

KEY, STRANGER = key_of("router"), key_of("mallory")


def trusting(*entries, **more):
    return POLICY + f"trust: {json.dumps({'keys': list(entries)} | more)}\n"


TRUSTING = trusting(entry(KEY, kinds=["window"]))


def signed(window, *keys):
    for key in keys or (KEY,):
        window = signed_window(window, key)
    return window


def refused(window, policy=TRUSTING):
    """Why a step holds whose only window is this one, and what its entry in the record says."""
    decision = step(window, policy=policy)
    (piece,) = decision.record["windows"]
    assert (decision.action, piece["used"]) == ("hold", False)
    (observed,) = [rule for rule in decision.record["rules"] if rule["rule"] == "window.observed"]
    assert piece["reasons"][0].split(":")[0] == observed["reasons"][0]
    return piece["reasons"][0]


def test_a_signed_window_counts_and_the_record_says_whose():
    decision = step(signed(pair()), policy=TRUSTING)
    assert (decision.verdict, decision.record["signers"]) == ("promote", [KEY.id])
    assert decision.record["windows"][0]["signers"] == [KEY.id]


def test_a_policy_without_trust_asks_for_nothing():
    plain, vouched = step(pair()), step(signed(pair(), KEY, STRANGER))
    assert (plain.verdict, vouched.verdict) == ("promote", "promote")
    assert "signers" not in vouched.record


def test_an_unsigned_window_is_refused_by_name():
    assert refused(pair()) == "unsigned: the policy requires a signature; add one with `infercrane guard sign`"


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        (entry(STRANGER, kinds=["window"]), "which the policy does not list"),
        (entry(KEY), "may attest benchmark only, not window"),
        (entry(KEY, kinds=["window"], not_after="2026-11-30T04:05:00Z"), "was valid until"),
        (entry(KEY, kinds=["window"], revoked_at="2026-12-01T00:00:00Z"), "was revoked at"),
    ],
)
def test_a_key_that_may_not_vouch_for_it_is_refused_by_name(listed, why):
    reason = refused(signed(pair()), trusting(listed))
    assert reason.startswith("untrusted_key: ")
    assert why in reason


def changed(document):
    document["bindings"][0]["failed_by_class"] = {}


def other_type(document):
    body = canonical_bytes({name: value for name, value in document.items() if name != "attestation"})
    document["attestation"] = attestation(EVIDENCE_TYPE, body, KEY)


@pytest.mark.parametrize("change", [changed, other_type])
def test_what_was_not_signed_so_is_refused_by_name(change):
    document = signed(pair())
    change(document)
    assert refused(document).startswith("signature_invalid: ")


def test_a_broken_signature_is_refused_even_where_none_is_required():
    document = signed(pair())
    changed(document)
    assert refused(document, trusting(entry(KEY, kinds=["window"]), require_signatures=False)).startswith("signature")
    assert step(pair(), policy=trusting(entry(KEY), require_signatures=False)).verdict == "promote"


def test_an_unsigned_window_beside_signed_ones_holds_too():
    """Who takes the signature off a bad window must not get further by it."""
    bad = pair(failed=80, begin=9.9, end=10)
    decision = step(signed(pair(begin=0, end=9.9)), bad, as_of=minutes(10), policy=TRUSTING)
    assert decision.action == "hold"


def test_a_failure_that_is_vouched_for_decides_whatever_lies_beside_it():
    assert step(signed(pair(failed=80)), pair(begin=10, end=11), policy=TRUSTING).action == "rollback"


def test_a_window_of_another_time_is_not_asked_for_a_signature():
    assert step(pair(begin=-10, end=0), signed(pair()), policy=TRUSTING).verdict == "promote"


def test_the_watch_asks_for_signatures_too_and_freezes_nothing_unsigned():
    assert watched(signed(alone(end=30)), policy=TRUSTING).record["state"] == "proven"
    assert watched(alone(end=30), policy=TRUSTING).record["reasons"][0].startswith("window.observed: unsigned")
    baseline = loaded([pair()])
    record = {"sha256": baseline[0].sha256, "used": True}
    promoted = flipped(decision_type="canary_step", windows=[record])
    given = [*baseline, *loaded([signed(alone(end=30))])]
    decision = post_promotion(load_policy(TRUSTING), given, promoted, as_of=minutes(30))
    assert decision.record["frozen"] == []


@pytest.mark.parametrize(
    ("signatures", "code"),
    [
        (None, "bad_value"),
        ({}, "bad_value"),
        ({"payload": "e30="}, "bad_value"),
        ({"int": 1}, "bad_value"),
        ("no", "bad_value"),
    ],
)
def test_what_are_no_signatures_make_no_window(signatures, code):
    problem = read_window(json.dumps(pair() | {"attestation": signatures}).encode()).problem
    assert problem
    assert (problem.code, problem.detail.startswith("attestation")) == (code, True)


def test_files_are_signed_in_place_decided_on_and_verified(tmp_path, write, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key = new_key(tmp_path / "router.pem")
    (tmp_path / "policy.yaml").write_text(trusting(entry(key, kinds=["window"])))
    Ledger(tmp_path / "ledger.jsonl").append(opened())
    (file,) = write(pair()).iterdir()

    def run(*arguments):
        return CliRunner().invoke(command, [*map(str, arguments)])

    asked = ("--policy", "policy.yaml", "--ledger", "ledger.jsonl", "--stack", "prod", "--as-of", minutes(10))
    held = run("canary", "windows", *asked, "--record")
    assert (held.exit_code, f"unsigned: {file.name}: the policy requires" in held.output) == (4, True)
    assert run("sign", file, "--key", "router.pem").exit_code == 0
    assert run("canary", "windows", *asked, "--record").exit_code == 0
    (tmp_path / "evidence").mkdir()
    options = ("--evidence", "evidence", "--policy", "policy.yaml", "--windows", "windows")
    verified = run("verify", "ledger.jsonl", *options)
    assert verified.output.count(": equal") == 1
    assert verified.output.count("its evidence is not here") == 1


def test_what_is_no_window_is_not_signed(tmp_path):
    new_key(tmp_path / "k.pem")
    (tmp_path / "x.window.json").write_text("{}")
    done = CliRunner().invoke(command, ["sign", str(tmp_path / "x.window.json"), "--key", str(tmp_path / "k.pem")])
    assert (done.exit_code, "not signed: schema_unknown" in done.output) == (2, True)
