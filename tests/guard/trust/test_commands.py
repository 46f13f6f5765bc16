"""`infercrane guard keygen` and `infercrane guard sign`: from a new key to evidence that counts."""

import json

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard import PolicyError, TrustError, load_evidence, load_key, load_policy, new_key, sign_file
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.stacks.cli.guard import command
from tests.guard.trust.conftest import POLICY, entry, trusting


def run(*arguments, **environment):
    return CliRunner(env=environment).invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def key(tmp_path):
    """A key file."""
    new_key(tmp_path / "bench.pem")
    return tmp_path / "bench.pem"


@pytest.fixture
def envelope(folder):
    """One good measurement, not signed."""
    return folder.benchmark("candidate", folder.seconds(300))


def test_a_new_key_prints_what_a_policy_needs_to_trust_it(tmp_path):
    made = run("keygen", tmp_path / "bench.pem")
    assert made.exit_code == 0
    key = load_key(tmp_path / "bench.pem")
    assert made.output.splitlines()[0] == f"# {key.id}"
    (trusted,) = load_policy(POLICY + made.output).trust.keys.values()
    assert (trusted.public_key, trusted.kinds) == (key.public_key, known_kinds())
    assert (trusted.not_after - trusted.not_before).days == 365
    assert "# A policy that has `trust` already takes the entry alone, below its `keys:`." in made.output.splitlines()
    shown = run("keygen", "--show", tmp_path / "bench.pem")
    assert shown.output.splitlines()[:5] == made.output.splitlines()[:5]


def test_a_private_key_is_never_printed(key):
    secret = "".join(key.read_text().splitlines()[1:-1])
    assert secret
    assert secret not in run("keygen", "--show", key).output


def test_a_second_key_goes_below_the_keys_there_are(tmp_path):
    made = [run("keygen", tmp_path / f"{name}.pem").output for name in ("one", "two")]
    with pytest.raises(PolicyError, match="key 'trust' is written twice: put what belongs to it below one"):
        load_policy(POLICY + "".join(made))
    entry_alone = made[1].partition("  keys:\n")[2]
    assert len(load_policy(POLICY + made[0] + entry_alone).trust.keys) == 2


def test_what_is_no_envelope_by_name_either_is_told_as_that(tmp_path, key):
    (tmp_path / "results.json").write_text("x" * 1_048_577)
    result = run("sign", tmp_path / "results.json", "--key", key)
    assert result.exit_code == 2
    assert "an envelope (*.evidence.json) or a window (*.window.json) is meant" in result.output


def test_an_existing_key_is_not_overwritten(key):
    before = key.read_bytes()
    result = run("keygen", key)
    assert (result.exit_code, key.read_bytes()) == (2, before)
    assert "never overwritten" in result.output


def test_a_passphrase_comes_from_the_variable_that_is_named(tmp_path):
    assert run("keygen", tmp_path / "k.pem", "--passphrase-env", "PASS", PASS="secret").exit_code == 0
    assert run("keygen", "--show", tmp_path / "k.pem", "--passphrase-env", "PASS", PASS="secret").exit_code == 0
    for environment, expected in (({"PASS": "other"}, "another one"), ({"PASS": ""}, "PASS is not set")):
        result = run("keygen", "--show", tmp_path / "k.pem", "--passphrase-env", "PASS", **environment)
        assert result.exit_code == 2
        assert expected in result.output


def test_signed_evidence_counts(folder, envelope, key):
    policy = trusting(entry(load_key(key)))
    assert folder.decide(policy=policy).verdict == "insufficient_evidence"
    result = run("sign", envelope, "--key", key)
    assert result.output == f"{envelope}: signed by {load_key(key).id}\n"
    assert folder.decide(policy=policy).verdict == "promote"


def test_signing_changes_nothing_but_the_attestation(envelope, key):
    before = json.loads(envelope.read_text())
    run("sign", envelope, "--key", key)
    after = json.loads(envelope.read_text())
    assert list(after.pop("attestation")) == ["payloadType", "signatures"]
    assert after == before


def test_signing_twice_is_signing_once_and_other_keys_stay(tmp_path, envelope, key):
    new_key(tmp_path / "second.pem")
    for name in (key, tmp_path / "second.pem", key):
        run("sign", envelope, "--key", name)
    signatures = json.loads(envelope.read_text())["attestation"]["signatures"]
    assert [one["keyid"] for one in signatures] == [load_key(tmp_path / "second.pem").id, load_key(key).id]


def test_several_files_are_signed_at_once(folder, key):
    folder.both()
    run("sign", *folder.root.glob("*.evidence.json"), "--key", key)
    assert all(item.envelope.attestation for item in load_evidence(folder.root).items)


def test_what_was_edited_is_not_signed(envelope, key):
    envelope.write_text(envelope.read_text().replace('"candidate"', '"baseline"'))
    before = envelope.read_bytes()
    result = run("sign", envelope, "--key", key)
    assert result.exit_code == 2
    assert "not signed: tampered" in result.output
    assert envelope.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{}", '{"a": 1, "a": 2}', " " * 2_000_000])
def test_what_is_no_envelope_is_not_signed(tmp_path, key, content):
    (tmp_path / "x.json").write_text(content)
    result = run("sign", tmp_path / "x.json", "--key", key)
    assert result.exit_code == 2
    assert "x.json: not signed: " in result.output


def test_another_type_of_attestation_is_not_added_to(envelope, key):
    document = json.loads(envelope.read_text())
    signature = {"keyid": "sha256:" + "0" * 64, "sig": "x"}
    document["attestation"] = {"payloadType": "text/plain", "signatures": [signature]}
    envelope.write_text(json.dumps(document))
    with pytest.raises(TrustError, match="its payloadType is 'text/plain'"):
        sign_file(envelope, load_key(key))


def test_a_file_that_is_not_there_is_named(tmp_path, key):
    with pytest.raises(TrustError, match=r"x\.json: cannot be signed: there is no such file"):
        sign_file(tmp_path / "x.json", load_key(key))
