"""The trust store: the keys a policy lists, what each may attest, and for which time.

Keys come from here only. The one time a piece of evidence carries is `window.ended_at`, and that is what validity and
revocation are judged at. It is what the signer wrote: whoever holds a stolen key can write an earlier one. So a key
that was lost must not count at all any more (the default); `count_before_revocation` is for a key that was retired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pulumi_infercrane.guard.policy_yaml import Node
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.guard.times import format_time, parse_time
from pulumi_infercrane.guard.trust.dsse import KEY_BYTES, from_base64, key_id, to_base64

OVERRIDE = "override"
"""What a key may sign beside kinds of evidence: an order to move the route without any."""
WINDOW = "window"
"""What a key may sign too: what a router counted."""

_KEYS = ("require_signatures", "keys")
_REQUIRED = ("id", "public_key", "kinds", "not_before", "not_after")
_KEY_KEYS = (*_REQUIRED, "revoked_at", "count_before_revocation")


@dataclass(frozen=True)
class TrustKey:
    """One public key (32 raw bytes) and its limits; both ends of its validity belong to it."""

    id: str
    public_key: bytes
    kinds: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    revoked_at: datetime | None = None
    count_before_revocation: bool = False

    def refusal(self, kind: str, at: datetime) -> str:
        """Why this key may not attest `kind` at a time; empty when it may."""
        if kind not in self.kinds:
            return f"may attest {' and '.join(self.kinds)} only, not {kind}"
        if at < self.not_before:
            late = f"is valid from {format_time(self.not_before)} on"
            return f"{late}, this is of {format_time(at)}: set its `not_before` earlier, or measure again"
        if at > self.not_after:
            return f"was valid until {format_time(self.not_after)}"
        return self._revoked(at)

    def _revoked(self, at: datetime) -> str:
        if self.revoked_at is None or (self.count_before_revocation and at < self.revoked_at):
            return ""
        return f"was revoked at {format_time(self.revoked_at)}"


@dataclass(frozen=True)
class Trust:
    """The `trust` of a policy: keys by id."""

    require_signatures: bool
    keys: Mapping[str, TrustKey]


def read_trust(node: Node) -> Trust:
    """The trust store under a policy's key `trust`. Signatures are required unless it says otherwise.

    Raises:
        PolicyError: with the line.
    """
    fields = node.mapping(_KEYS, required=("keys",))
    required = fields["require_signatures"].boolean() if "require_signatures" in fields else True
    keys: dict[str, TrustKey] = {}
    for item in fields["keys"].items():
        key = _key(item)
        if key.id in keys:
            raise item.error(f"key {key.id} is written twice")
        keys[key.id] = key
    if not keys:
        raise fields["keys"].error("keys is empty: without a key no signature could ever count")
    return Trust(required, keys)


def _key(node: Node) -> TrustKey:
    fields = node.mapping(_KEY_KEYS, required=_REQUIRED)
    public_key = fields["public_key"].parsed(_public_key)
    if fields["id"].text() != key_id(public_key):
        raise fields["id"].error(f"id is not the digest of this public_key, which is {key_id(public_key)}")
    not_before, not_after = (fields[name].parsed(parse_time) for name in ("not_before", "not_after"))
    if not_after <= not_before:
        raise fields["not_after"].error("not_after: must be later than not_before")
    if "count_before_revocation" in fields and "revoked_at" not in fields:
        raise fields["count_before_revocation"].error("count_before_revocation: says nothing without revoked_at")
    return TrustKey(
        id=key_id(public_key),
        public_key=public_key,
        kinds=_kinds(fields["kinds"]),
        not_before=not_before,
        not_after=not_after,
        revoked_at=fields["revoked_at"].parsed(parse_time) if "revoked_at" in fields else None,
        count_before_revocation="count_before_revocation" in fields and fields["count_before_revocation"].boolean(),
    )


def _public_key(text: str) -> bytes:
    return from_base64(text, KEY_BYTES)


def _kinds(node: Node) -> tuple[str, ...]:
    kinds = tuple(item.choice(*known_kinds(), WINDOW, OVERRIDE) for item in node.items())
    if not kinds:
        raise node.error("kinds is empty: name what this key may attest")
    return tuple(sorted(set(kinds)))


def policy_lines(public_key: bytes, kinds: Sequence[str], not_before: datetime, not_after: datetime) -> str:
    """One entry of `trust.keys`, indented to stand below it."""
    return "\n".join(
        (
            f"    - id: {key_id(public_key)}",
            f"      public_key: {to_base64(public_key)}",
            f"      kinds: [{', '.join(kinds)}]",
            f"      not_before: {format_time(not_before)}",
            f"      not_after: {format_time(not_after)}",
        )
    )
