"""Overrides: an order, signed by somebody the policy trusts with it, to move the route without evidence.

The order (`infercrane.override/v1`) names its owner, a reason, one service, one stack, one target and an expiry, and is
used once. It says nothing about readiness: the target must run, and the router must take the flip, as always.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from pulumi_infercrane.guard.canonical import canonical_bytes, joined
from pulumi_infercrane.guard.decision import Decision, check_service, record_head, sealed, utc_time
from pulumi_infercrane.guard.errors import CanonicalError, OverrideError
from pulumi_infercrane.guard.evidence.envelope import Digest, UtcTime
from pulumi_infercrane.guard.findings import findings
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.guard.times import format_time, parse_time
from pulumi_infercrane.guard.trust.attestation import Attestation, Strict
from pulumi_infercrane.guard.trust.dsse import OVERRIDE_TYPE
from pulumi_infercrane.guard.trust.gate import Statement, counted
from pulumi_infercrane.guard.trust.keys import SigningKey
from pulumi_infercrane.guard.trust.signing import attestation
from pulumi_infercrane.guard.trust.store import OVERRIDE

SCHEMA = "infercrane.override/v1"
MAX_BYTES = 16 * 1024

_Words = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"\S")]


class Order(Strict):
    """What was signed, and the signatures."""

    schema_: Annotated[Literal["infercrane.override/v1"], Field(alias="schema")]
    service: _Words
    stack: _Words
    target: Digest
    owner: _Words
    reason: _Words
    issued_at: UtcTime
    expires_at: UtcTime
    attestation: Attestation


@dataclass(frozen=True)
class Override:
    """An order as it was read. Its signatures are checked when it is used."""

    order: Order
    document: Mapping[str, Any]
    body: bytes
    """What was signed, and what `order` was typed from."""


def sign_override(
    key: SigningKey,
    *,
    service: str,
    stack: str,
    target: str,
    owner: str,
    reason: str,
    issued_at: datetime,
    expires_at: datetime,
) -> str:
    """The text of a signed order to move the route of a service to `target`, a revision digest.

    Raises:
        OverrideError: when the owner or the reason is empty, or the order would expire before it is issued.
    """
    order = {
        "schema": SCHEMA,
        "service": service,
        "stack": stack,
        "target": target,
        "owner": owner.strip(),
        "reason": reason.strip(),
        "issued_at": format_time(issued_at),
        "expires_at": format_time(expires_at),
    }
    if expires_at <= issued_at:
        raise OverrideError(f"the override would expire at {order['expires_at']}, before it is issued")
    document = {**order, "attestation": attestation(OVERRIDE_TYPE, canonical_bytes(order), key)}
    override_from(document)
    return canonical_bytes(document).decode()


def read_override(text: str) -> Override:
    """The order in a text.

    Raises:
        OverrideError: when it is none.
    """
    try:
        return override_from(parse(text.encode(), max_bytes=MAX_BYTES))
    except (Inadmissible, UnicodeEncodeError) as error:
        raise OverrideError(f"not an override: {error}") from error


def override_from(document: Any) -> Override:
    """The order in a parsed document, as `read_override`."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise OverrideError(f"not an override: its schema is not {SCHEMA}")
    try:
        body = canonical_bytes(_unsigned(document))
        beside = canonical_bytes({"attestation": document.get("attestation")})
        return Override(Order.model_validate_json(joined(beside, body)), document, body)
    except CanonicalError as error:
        raise OverrideError(f"not an override: {error}") from error
    except ValidationError as error:
        first = findings(error, Order)[0]
        raise OverrideError(f"not an override: {first.field}: {first.text}") from error


def override(
    policy: Policy,
    asked: Override,
    *,
    service: str,
    stack: str,
    active: str,
    as_of: str,
    previous_decision_id: str = "",
    history: Sequence[Mapping[str, Any]] = (),
) -> Decision:
    """Move the route to the target of an order. Needs no evidence, but a key that the policy trusts with `override`.

    `as_of` is the time the expiry and the key are judged at: not the time the signer wrote. `history` holds earlier
    decision records; an order in one of them is used up.

    Raises:
        OverrideError: when the order is for something else, expired, used, or not signed by such a key.
        PolicyError: when the policy is for another service.
        GuardError: when `as_of` is no UTC time.
    """
    check_service(policy, service)
    order, now = asked.order, utc_time(as_of)
    _check_scope(order, service, stack, active)
    if now >= parse_time(order.expires_at):
        raise OverrideError(f"the override expired at {order.expires_at}: a new one must be signed")
    if any(_unsigned(record.get("override", {})) == _unsigned(asked.document) for record in history):
        raise OverrideError("this override was used already: a new one must be signed")
    return sealed(
        {
            **record_head("override", "promote", "flip", service, stack),
            "as_of": format_time(now),
            "expires_at": order.expires_at,
            "candidate": order.target,
            "baseline": active,
            "expected_active": active,
            "policy_digest": policy.digest,
            "signers": list(_signers(policy, asked, now)),
            "prev_decision_id": previous_decision_id,
            "override": dict(asked.document),
            "rules": [],
            "evidence": [],
            "reasons": [f"override: {order.reason} (ordered by {order.owner})"],
            "first_reason": "override",
        }
    )


def _unsigned(document: Mapping[str, Any]) -> dict[str, Any]:
    """An order without its signatures: one with more of them is the same order."""
    return {name: value for name, value in document.items() if name != "attestation"}


def _check_scope(order: Order, service: str, stack: str, active: str) -> None:
    if (order.service, order.stack) != (service, stack):
        raise OverrideError(
            f"the override is for service {order.service!r} of stack {order.stack}, not for {service!r} of {stack}"
        )
    if order.target == active:
        raise OverrideError(f"revision {active} already serves: there is nothing to override")


def _signers(policy: Policy, asked: Override, now: datetime) -> tuple[str, ...]:
    if policy.trust is None:
        raise OverrideError(
            f"{policy.source}: the policy trusts no key, so nobody can override it: "
            f"list one under trust.keys with 'kinds: [{OVERRIDE}]'"
        )
    try:
        return counted(policy.trust, asked.order.attestation, Statement(OVERRIDE_TYPE, asked.body, OVERRIDE, now))
    except Inadmissible as error:
        raise OverrideError(f"the override does not count: {error.problem}") from error
