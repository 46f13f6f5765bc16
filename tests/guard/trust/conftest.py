"""Keys that need no file, and policies that trust them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pulumi_infercrane.guard.trust.dsse import to_base64
from pulumi_infercrane.guard.trust.keys import SigningKey
from pulumi_infercrane.guard.trust.signing import signed

POLICY = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.error_fraction}]\n"
YEAR = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2026-12-31T00:00:00Z"}


def key_of(name: str) -> SigningKey:
    """The same key for the same name."""
    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    return SigningKey(private.public_key().public_bytes_raw(), private.sign)


def trusting(*entries: dict[str, Any], **more: Any) -> str:
    """A policy with these keys, as flow-style YAML, which JSON is."""
    return POLICY + f"trust: {json.dumps({'keys': list(entries)} | more)}\n"


def entry(key: SigningKey, **changes: Any) -> dict[str, Any]:
    """A key as a policy lists it, valid in 2026."""
    listed = {"id": key.id, "public_key": to_base64(key.public_key), "kinds": ["benchmark"]}
    return listed | YEAR | changes


def sign(path: Path, *keys: SigningKey, change: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
    """Sign an envelope file; `change` is what somebody does to it afterwards. Returns the document."""
    document: dict[str, Any] = json.loads(path.read_text())
    for key in keys:
        document = signed(document, key)
    if change:
        change(document)
    path.write_text(json.dumps(document))
    return document


@pytest.fixture
def bench() -> SigningKey:
    """The key of the measuring machine."""
    return key_of("bench")


@pytest.fixture
def mallory() -> SigningKey:
    """A key nobody listed."""
    return key_of("mallory")
