"""Documents about client keys: JSON values in, immutable values out, every broken rule named."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from pulumi_infercrane.router.clients.keys import (
    ANY_SERVICE,
    MAX_KEYS,
    MAX_SECRETS,
    PRIORITIES,
    SCHEMA,
    Grant,
    Key,
    KeyLimits,
    Secret,
)
from pulumi_infercrane.router.errors import KeysInvalid, TableInvalid
from pulumi_infercrane.router.tables.reading import Reader, Shape, persisted
from pulumi_infercrane.router.tables.schema import MAX_COUNT, MOMENT, SERVICE
from pulumi_infercrane.router.tables.table import digest_of

T = TypeVar("T")

NAME = SERVICE
_SHA256 = Shape(r"[0-9a-f]{64}", "64 hex digits in lower case")
_SERVICES = Shape(
    rf"{re.escape(ANY_SERVICE)}|{SERVICE.expression}", f"{ANY_SERVICE} for every service, or {SERVICE.words}"
)
_PRIORITY = Shape("|".join(PRIORITIES), f"one of {', '.join(PRIORITIES)}")
_GRANT = ("name", "services")
_GRANT_OPTIONAL = ("priorities", "pin", "limits", "expires_at")
_YEAR_S = 366 * 86_400


def read_grant(document: object) -> Grant:
    """The body of a POST.

    Raises:
        KeysInvalid: with every finding.
    """
    reader = _KeyReader()
    grant = reader.grant(reader.mapping(document, "key", _GRANT, _GRANT_OPTIONAL), "key")
    return reader.finished(grant)


def read_rotation(document: object) -> float:
    """The body of a rotation: seconds for which the old secrets stay valid.

    Raises:
        KeysInvalid: with every finding.
    """
    reader = _KeyReader()
    value = reader.mapping(document, "rotation", ("old_valid_s",), ()).get("old_valid_s", 0)
    if type(value) not in (int, float) or not 0 <= value <= _YEAR_S:
        reader.find("rotation.old_valid_s", f"must be seconds, from 0 to {_YEAR_S}")
        value = 0
    return reader.finished(float(value))


def keys_document(keys: Iterable[Key]) -> dict[str, Any]:
    """What is persisted."""
    body = {"schema": SCHEMA, "keys": [key.document() for key in keys]}
    return {**body, "digest": digest_of(body)}


def read_keys(document: object) -> dict[str, Key]:
    """Persisted keys; their digest and schema are checked, not trusted.

    Raises:
        StateDamaged: another schema, or a digest that does not match.
        KeysInvalid: with every finding.
    """
    document = persisted(document, SCHEMA)
    reader = _KeyReader()
    reader.mapping(document, "keys", ("schema", "keys", "digest"), ())
    keys = reader.listed(document.get("keys"), "keys", MAX_KEYS)
    read = [reader.key(key, f"keys[{index}]") for index, key in enumerate(keys)]
    reader.distinct([key.name for key in read], "keys: names")
    return reader.finished({key.name: key for key in read})


class _KeyReader(Reader):
    def finished(self, value: T) -> T:
        try:
            self.raise_findings()
        except TableInvalid as invalid:
            raise KeysInvalid(invalid.findings) from None
        return value

    def key(self, value: object, where: str) -> Key:
        entry = self.mapping(value, where, (*_GRANT, "created_at", "secrets"), (*_GRANT_OPTIONAL, "revoked_at"))
        secrets = self.listed(entry.get("secrets"), f"{where}.secrets", MAX_SECRETS)
        return Key(
            grant=self.grant(entry, where),
            created_at=self.text(entry, where, "created_at", MOMENT),
            secrets=tuple(self.secret(secret, f"{where}.secrets[{index}]") for index, secret in enumerate(secrets)),
            revoked_at=self.text(entry, where, "revoked_at", MOMENT),
        )

    def grant(self, entry: Mapping[str, Any], where: str) -> Grant:
        pin = entry.get("pin", False)
        if not isinstance(pin, bool):
            self.find(f"{where}.pin", "must be true or false")
        priorities = entry.get("priorities", ["normal"])
        if priorities == []:
            self.find(f"{where}.priorities", "must name at least one")
        return Grant(
            name=self.text(entry, where, "name", NAME),
            services=self.texts(entry.get("services"), f"{where}.services", _SERVICES, at_least=1),
            priorities=self.texts(priorities, f"{where}.priorities", _PRIORITY),
            pin=bool(pin),
            limits=self.key_limits(entry["limits"], f"{where}.limits") if "limits" in entry else None,
            expires_at=self.text(entry, where, "expires_at", MOMENT),
        )

    def key_limits(self, value: object, where: str) -> KeyLimits:
        known = tuple(limit.name for limit in fields(KeyLimits))
        entry = self.mapping(value, where, (), known)
        return KeyLimits(
            **{name: self.whole(entry[name], f"{where}.{name}", 1, MAX_COUNT) for name in entry if name in known}
        )

    def secret(self, value: object, where: str) -> Secret:
        entry = self.mapping(value, where, ("sha256", "created_at"), ("expires_at",))
        return Secret(
            sha256=self.text(entry, where, "sha256", _SHA256),
            created_at=self.text(entry, where, "created_at", MOMENT),
            expires_at=self.text(entry, where, "expires_at", MOMENT),
        )

    def listed(self, value: object, where: str, most: int) -> Sequence[object]:
        if isinstance(value, list) and len(value) <= most:
            return value
        self.find(where, f"must be a list of at most {most} items")
        return ()
