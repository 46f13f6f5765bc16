"""Documents about keys are read strictly, and say every rule they break."""

from typing import Any

import pytest

from pulumi_infercrane.router.clients.key_documents import keys_document, read_grant, read_keys, read_rotation
from pulumi_infercrane.router.clients.keys import Grant, KeyLimits, issue, revoke, rotate
from pulumi_infercrane.router.errors import KeysInvalid, StateDamaged
from pulumi_infercrane.router.tables.table import digest_of

NOW, SOON = "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z"
FULL = Grant("ci", ("chat", "other"), ("high", "low"), True, KeyLimits(60, 1000, 4), SOON)


def test_what_is_written_is_read() -> None:
    keys = issue(issue({}, FULL, NOW).keys, Grant("all", ("*",)), NOW).keys
    keys = revoke(issue(rotate(keys, "ci", NOW, SOON).keys, Grant("gone", ("chat",)), NOW).keys, "gone", SOON)
    assert read_keys(keys_document(keys.values())) == keys


@pytest.mark.parametrize("grant", [FULL, Grant("a", ("*",))])
def test_a_grant_survives_the_wire(grant: Grant) -> None:
    assert read_grant(grant.document()) == grant


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"name": "Not A Name"}, "key.name: 'Not A Name' is not a name of up to 63"),
        ({"name": "../keys"}, "key.name"),
        ({"services": []}, "key.services: must be a list of 1 to 256 items"),
        ({"services": ["chat", "chat"]}, "'chat' occurs twice"),
        ({"services": "chat"}, "key.services: must be a list"),
        ({"services": ["ch*"]}, "key.services[0]"),
        ({"priorities": []}, "key.priorities: must name at least one"),
        ({"priorities": ["urgent"]}, "key.priorities[0]: 'urgent' is not one of high, normal, low"),
        ({"pin": 1}, "key.pin: must be true or false"),
        ({"limits": {"requests_per_minute": 0}}, "key.limits.requests_per_minute: must be a whole number from 1"),
        ({"limits": {"tokens_per_minute": True}}, "key.limits.tokens_per_minute"),
        ({"limits": {"rps": 1}}, "key.limits.rps: unknown field; known are"),
        ({"expires_at": "tomorrow"}, "key.expires_at: 'tomorrow' is not a UTC time like 2026-11-30T05:00:00Z"),
        ({"secret": "mine"}, "key.secret: unknown field; known are"),
    ],
)
def test_what_is_no_grant(change: dict[str, Any], finding: str) -> None:
    with pytest.raises(KeysInvalid) as refused:
        read_grant({"name": "ci", "services": ["chat"], **change})
    assert finding in str(refused.value)


@pytest.mark.parametrize("seconds", [-1, True, "60", None, float("nan"), float("inf"), 1e9])
def test_what_is_no_rotation(seconds: object) -> None:
    with pytest.raises(KeysInvalid, match="must be seconds, from 0"):
        read_rotation({"old_valid_s": seconds})


@pytest.mark.parametrize(
    "change",
    [{"schema": "infercrane.keys/v2"}, {"keys": []}, {"digest": "sha256:" + "0" * 64}, {"surprise": 1}],
)
def test_an_edited_file_is_refused(change: dict[str, Any]) -> None:
    document = keys_document(issue({}, FULL, NOW).keys.values())
    with pytest.raises(StateDamaged):
        read_keys(document | change)


def test_a_digest_does_not_make_nonsense_right() -> None:
    body = {"schema": "infercrane.keys/v1", "keys": [{"name": "ci"}, 7]}
    with pytest.raises(KeysInvalid) as refused:
        read_keys({**body, "digest": digest_of(body)})
    assert "keys[0]: field 'services' is missing" in str(refused.value)
    assert "keys[1]: must be an object" in str(refused.value)
