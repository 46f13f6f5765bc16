"""Private keys are files that only their owner reads and nobody overwrites."""

import os
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from pulumi_infercrane.guard.errors import TrustError
from pulumi_infercrane.guard.trust.keys import load_key, new_key


def test_a_new_key_can_be_loaded_and_is_the_same(tmp_path):
    made = new_key(tmp_path / "ci.pem")
    loaded = load_key(tmp_path / "ci.pem")
    assert (made.id, made.public_key) == (loaded.id, loaded.public_key)
    assert made.sign("t", b"x") == loaded.sign("t", b"x")
    assert new_key(tmp_path / "other.pem").id != made.id


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_can_read_it(tmp_path, umask):
    before = os.umask(umask)
    try:
        new_key(tmp_path / "ci.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "ci.pem").stat().st_mode) == 0o600


def test_a_key_is_never_overwritten(tmp_path):
    first = new_key(tmp_path / "ci.pem").id
    (tmp_path / "link.pem").symlink_to(tmp_path / "target.pem")
    for name in ("ci.pem", "link.pem"):
        with pytest.raises(TrustError, match="never overwritten"):
            new_key(tmp_path / name)
    assert load_key(tmp_path / "ci.pem").id == first
    assert not (tmp_path / "target.pem").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TrustError, match=r"no/ci\.pem: cannot be written: there is no such file"):
        new_key(tmp_path / "no" / "ci.pem")


def test_a_key_under_a_passphrase_opens_with_that_one_only(tmp_path):
    made = new_key(tmp_path / "ci.pem", "correct horse")
    assert b"ENCRYPTED" in (tmp_path / "ci.pem").read_bytes()
    assert load_key(tmp_path / "ci.pem", "correct horse").id == made.id
    with pytest.raises(TrustError, match="the passphrase is another one"):
        load_key(tmp_path / "ci.pem", "battery staple")
    with pytest.raises(TrustError, match=r"is encrypted: name the variable .* with --passphrase-env"):
        load_key(tmp_path / "ci.pem")


def test_a_passphrase_for_a_key_that_has_none_is_a_mistake(tmp_path):
    new_key(tmp_path / "ci.pem")
    with pytest.raises(TrustError, match="is not encrypted"):
        load_key(tmp_path / "ci.pem", "x")


def test_a_key_others_can_read_is_refused(tmp_path):
    new_key(tmp_path / "ci.pem")
    (tmp_path / "ci.pem").chmod(0o640)
    with pytest.raises(TrustError, match=r"others can read this key: `chmod 600"):
        load_key(tmp_path / "ci.pem")


def test_another_kind_of_key_is_refused(tmp_path):
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "x.pem").write_bytes(X25519PrivateKey.generate().private_bytes(*form))
    (tmp_path / "x.pem").chmod(0o600)
    with pytest.raises(TrustError, match="not an Ed25519 key"):
        load_key(tmp_path / "x.pem")


@pytest.mark.parametrize("content", [b"", b"ssh-ed25519 AAAA", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_something_else_is_refused(tmp_path, content):
    (tmp_path / "x.pem").write_bytes(content)
    (tmp_path / "x.pem").chmod(0o600)
    with pytest.raises(TrustError, match="no private key in PEM form"):
        load_key(tmp_path / "x.pem")


def test_a_key_that_is_gone_is_named(tmp_path):
    with pytest.raises(TrustError, match="cannot be read: there is no such file"):
        load_key(tmp_path / "x.pem")


def test_a_key_in_use_shows_its_public_half_only(tmp_path):
    made = new_key(tmp_path / "ci.pem")
    assert repr(made) == f"SigningKey(public_key={made.public_key!r})"
