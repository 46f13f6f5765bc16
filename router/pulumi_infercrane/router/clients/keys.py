"""Client keys: what they allow, and what a call makes of them. Pure: no clock, no disk.

A key is 256 random bits, shown once; only its SHA-256 is kept. It is found by that digest in a dictionary: nobody can
choose a digest, so how long a look-up takes says nothing about the keys there are.
"""

import hashlib
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pulumi_infercrane.router.errors import KeyExists, KeysInvalid, KeyUnknown

SCHEMA = "infercrane.keys/v1"
PREFIX = "ic_"
ANY_SERVICE = "*"
PRIORITIES = ("high", "normal", "low")
MAX_KEYS = 10_000
MAX_SECRETS = 8
"""Digests one key may have while rotations overlap."""

_SIZE = len(PREFIX) + 43


@dataclass(frozen=True)
class KeyLimits:
    """What one key may use. None is unlimited."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_inflight: int | None = None

    def document(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Secret:
    """What is kept of one secret. Times are RFC 3339 UTC; no `expires_at` means never."""

    sha256: str
    created_at: str
    expires_at: str = ""

    def document(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value}


@dataclass(frozen=True)
class Grant:
    """What a key is made with: everything but its secret."""

    name: str
    services: tuple[str, ...]
    """Names of services, or `*`."""
    priorities: tuple[str, ...] = ("normal",)
    """Classes its requests may ask for; the first is theirs when they ask for none."""
    pin: bool = False
    """Whether its requests may ask for a revision by header."""
    limits: KeyLimits | None = None
    expires_at: str = ""

    def document(self) -> dict[str, Any]:
        expiry = {"expires_at": self.expires_at} if self.expires_at else {}
        limits = {"limits": self.limits.document()} if self.limits is not None else {}
        return {
            "name": self.name,
            "services": list(self.services),
            "priorities": list(self.priorities),
            "pin": self.pin,
            **limits,
            **expiry,
        }


@dataclass(frozen=True)
class Key:
    """One key. A revoked one has no secrets; it is kept so that its name stays explainable."""

    grant: Grant
    created_at: str
    secrets: tuple[Secret, ...]
    revoked_at: str = ""

    @property
    def name(self) -> str:
        return self.grant.name

    def serves(self, service: str) -> bool:
        """Whether requests to this service are allowed."""
        return service in self.grant.services or ANY_SERVICE in self.grant.services

    def document(self) -> dict[str, Any]:
        revoked = {"revoked_at": self.revoked_at} if self.revoked_at else {}
        secrets = [secret.document() for secret in self.secrets]
        return {**self.grant.document(), "created_at": self.created_at, "secrets": secrets, **revoked}


Keys = Mapping[str, Key]
"""By name."""


class Issued(NamedTuple):
    """The keys after a call, and the secret that is shown this once."""

    keys: dict[str, Key]
    secret: str


class Found(NamedTuple):
    """A key by its secret, and when that secret ends, in seconds of the Unix epoch."""

    key: Key
    until: float


class Keyring:
    """All usable secrets, ready to be looked up. Replaced as a whole by every change."""

    def __init__(self, keys: Keys) -> None:
        self._by_digest = {
            bytes.fromhex(secret.sha256): Found(key, min(_seconds(secret.expires_at), _seconds(key.grant.expires_at)))
            for key in keys.values()
            for secret in key.secrets
        }

    def find(self, secret: bytes) -> Found | None:
        """Whose secret this is; it may have expired."""
        if len(secret) != _SIZE:
            return None
        return self._by_digest.get(hashlib.sha256(secret).digest())


def issue(keys: Keys, grant: Grant, now: str) -> Issued:
    """A new key.

    Raises:
        KeyExists: the name is in use.
        KeysInvalid: there are too many keys.
    """
    known = keys.get(grant.name)
    if known is not None and not known.revoked_at:
        raise KeyExists(f"a key {grant.name} exists: rotate it, or revoke it first")
    if known is None and len(keys) >= MAX_KEYS:
        raise KeysInvalid([f"a router keeps at most {MAX_KEYS} keys"])
    secret = _new_secret()
    return Issued({**keys, grant.name: Key(grant, now, (_kept(secret, now),))}, secret)


def rotate(keys: Keys, name: str, now: str, old_until: str) -> Issued:
    """A new secret for a key; its others end at `old_until`, or before it as they would have.

    Raises:
        KeyUnknown: no such key.
        KeysInvalid: too many secrets of this key are valid at the same time.
    """
    key = usable(keys, name)
    others = tuple(_ending(other, old_until) for other in key.secrets)
    others = tuple(other for other in others if other.expires_at > now)
    if len(others) >= MAX_SECRETS:
        raise KeysInvalid([f"key {name} has {len(others)} valid secrets: wait until one ends, or revoke the key"])
    secret = _new_secret()
    return Issued({**keys, name: replace(key, secrets=(*others, _kept(secret, now)))}, secret)


def revoke(keys: Keys, name: str, now: str) -> dict[str, Key]:
    """The keys without any secret of this one.

    Raises:
        KeyUnknown: no such key.
    """
    return {**keys, name: replace(usable(keys, name), secrets=(), revoked_at=now)}


def usable(keys: Keys, name: str) -> Key:
    """The key of this name, unless it is revoked.

    Raises:
        KeyUnknown: no such key.
    """
    key = keys.get(name)
    if key is None or key.revoked_at:
        raise KeyUnknown(f"no key {name}" if key is None else f"key {name} was revoked at {key.revoked_at}")
    return key


def _new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _kept(secret: str, now: str) -> Secret:
    return Secret(hashlib.sha256(secret.encode()).hexdigest(), now)


def _ending(secret: Secret, at: str) -> Secret:
    """RFC 3339 times of one form and zone sort as text."""
    return replace(secret, expires_at=min(secret.expires_at, at) if secret.expires_at else at)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else math.inf
