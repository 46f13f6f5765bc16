"""What a call makes of the keys: no clock, no disk."""

import hashlib

import pytest

from pulumi_infercrane.router.clients.keys import MAX_SECRETS, Grant, Keyring, issue, revoke, rotate
from pulumi_infercrane.router.errors import KeyExists, KeysInvalid, KeyUnknown

NOW, SOON, LATER = "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z", "2026-12-30T09:00:00Z"
GRANT = Grant("ci", ("chat",))


def names(keys: dict, secret: str) -> str | None:
    found = Keyring(keys).find(secret.encode())
    return None if found is None else found.key.name


def test_a_secret_is_256_random_bits_behind_a_prefix() -> None:
    first, second = issue({}, GRANT, NOW).secret, issue({}, GRANT, NOW).secret
    assert first.startswith("ic_") and len(first) == 3 + 43
    assert first != second


def test_only_the_hash_of_a_secret_is_kept() -> None:
    issued = issue({}, GRANT, NOW)
    kept = str(issued.keys["ci"].document())
    assert issued.secret not in kept and issued.secret[3:] not in kept
    assert hashlib.sha256(issued.secret.encode()).hexdigest() in kept


def test_a_key_is_found_by_its_secret_and_by_nothing_else() -> None:
    issued = issue({}, GRANT, NOW)
    secret = issued.secret
    assert names(issued.keys, secret) == "ci"
    digest = issued.keys["ci"].secrets[0].sha256
    for wrong in ("", "ic_", secret[:-1], secret + "x", secret[:-1] + "\x00", secret.swapcase(), digest, "é" * 46):
        assert names(issued.keys, wrong) is None, wrong


def test_a_look_up_compares_digests_only_so_its_time_tells_nothing() -> None:
    issued = issue({}, GRANT, NOW)
    (held,) = Keyring(issued.keys)._by_digest
    assert held == hashlib.sha256(issued.secret.encode()).digest()


def test_a_name_is_used_once_until_its_key_is_revoked() -> None:
    issued = issue({}, GRANT, NOW)
    with pytest.raises(KeyExists, match="rotate it, or revoke it first"):
        issue(issued.keys, GRANT, NOW)
    again = issue(revoke(issued.keys, "ci", NOW), GRANT, SOON)
    assert names(again.keys, again.secret) == "ci"
    assert names(again.keys, issued.secret) is None


def test_the_old_secret_of_a_rotation_ends_when_asked() -> None:
    old = issue({}, GRANT, NOW)
    new = rotate(old.keys, "ci", NOW, SOON)
    ring = Keyring(new.keys)
    both = [ring.find(secret.encode()) for secret in (old.secret, new.secret)]
    assert [found.until - both[0].until for found in both] == [0, float("inf")]
    assert [secret.expires_at for secret in new.keys["ci"].secrets] == [SOON, ""]


def test_a_rotation_never_prolongs_an_old_secret() -> None:
    once = rotate(issue({}, GRANT, NOW).keys, "ci", NOW, SOON)
    twice = rotate(once.keys, "ci", NOW, LATER)
    assert [secret.expires_at for secret in twice.keys["ci"].secrets] == [SOON, LATER, ""]


def test_a_rotation_lets_go_of_what_has_ended() -> None:
    keys = issue({}, GRANT, NOW).keys
    assert len(rotate(keys, "ci", NOW, NOW).keys["ci"].secrets) == 1
    assert len(rotate(rotate(keys, "ci", NOW, SOON).keys, "ci", LATER, LATER).keys["ci"].secrets) == 1


def test_secrets_that_are_valid_at_the_same_time_are_bounded() -> None:
    keys = issue({}, GRANT, NOW).keys
    for _ in range(MAX_SECRETS - 1):
        keys = rotate(keys, "ci", NOW, LATER).keys
    rotate(keys, "ci", NOW, NOW)
    with pytest.raises(KeysInvalid, match="8 valid secrets"):
        rotate(keys, "ci", NOW, LATER)


def test_a_revoked_key_is_remembered_without_a_secret() -> None:
    issued = issue({}, GRANT, NOW)
    keys = revoke(issued.keys, "ci", SOON)
    assert (keys["ci"].revoked_at, keys["ci"].secrets) == (SOON, ())
    for change in (lambda: revoke(keys, "ci", LATER), lambda: rotate(keys, "ci", LATER, LATER)):
        with pytest.raises(KeyUnknown, match=f"revoked at {SOON}"):
            change()
    with pytest.raises(KeyUnknown, match="no key other"):
        revoke(keys, "other", SOON)


def test_a_key_ends_with_its_grant_however_long_its_secrets_live() -> None:
    issued = issue({}, Grant("ci", ("chat",), expires_at=SOON), NOW)
    rotated = rotate(issued.keys, "ci", NOW, LATER)
    assert {found.until for found in map(Keyring(rotated.keys).find, map(str.encode, (issued[1], rotated[1])))} == {
        1796032800.0
    }


def test_a_key_serves_its_services_or_all() -> None:
    one, every = (issue({}, Grant("ci", (services,)), NOW).keys["ci"] for services in ("chat", "*"))
    assert (one.serves("chat"), one.serves("chatter"), one.serves("*")) == (True, False, False)
    assert every.serves("chat") and every.serves("anything")
