"""Strict reading of JSON values: what is wrong is collected with its path, and told all at once."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pulumi_infercrane.router.errors import StateDamaged, TableInvalid
from pulumi_infercrane.router.tables.table import digest_of

T = TypeVar("T")

MAX_ITEMS = 256
_DAY_S = 86_400


def persisted(document: object, schema: str) -> dict[str, Any]:
    """A document of the state folder, of this schema and as its digest says.

    Raises:
        StateDamaged: it is another one.
    """
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise StateDamaged(f"schema is {found!r}, this router reads {schema!r}")
    if document.get("digest") != digest_of({key: value for key, value in document.items() if key != "digest"}):
        raise StateDamaged("the content does not match its digest: the file was cut or edited")
    return document


@dataclass(frozen=True)
class Shape:
    """What a text may be: an expression for us, words for people."""

    expression: str
    words: str

    def fits(self, text: str) -> bool:
        return re.fullmatch(self.expression, text) is not None


class Reader:
    """Collects findings while it reads; what it returns counts only when there are none."""

    def __init__(self) -> None:
        self.findings: list[str] = []

    def raise_findings(self) -> None:
        if self.findings:
            raise TableInvalid(self.findings)

    def find(self, where: str, problem: str) -> None:
        self.findings.append(f"{where}: {problem}")

    def seconds(self, value: object, where: str, least: float) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _DAY_S:
            self.find(where, f"must be seconds, from {least} to {_DAY_S}")
            return 0
        return value

    def whole(self, value: object, where: str, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:
            self.find(where, f"must be a whole number from {least} to {most}")
            return least
        return value

    def flag(self, value: object, where: str) -> bool:
        if not isinstance(value, bool):
            self.find(where, "must be true or false")
        return value is True

    def mapping(self, value: object, where: str, required: Sequence[str], optional: Sequence[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self.find(where, "must be an object")
            return {}
        for name in value:
            if name not in required and name not in optional:
                self.find(at(where, name), f"unknown field; known are {', '.join((*required, *optional))}")
        for name in required:
            if name not in value:
                self.find(where, f"field {name!r} is missing")
        return value

    def items(self, value: object, where: str, read: Callable[[object, str], T], at_least: int = 0) -> tuple[T, ...]:
        if not isinstance(value, list) or not at_least <= len(value) <= MAX_ITEMS:
            self.find(where, f"must be a list of {at_least} to {MAX_ITEMS} items")
            return ()
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    def texts(self, value: object, where: str, shape: Shape, at_least: int = 0) -> tuple[str, ...]:
        texts = self.items(value, where, lambda item, at: self.one_text(item, at, shape), at_least)
        self.distinct(texts, where)
        return texts

    def text(self, entry: Mapping[str, Any], where: str, name: str, shape: Shape, *, empty: bool = False) -> str:
        value = entry.get(name, "")
        if name not in entry or (empty and value == ""):
            return ""
        return self.one_text(value, at(where, name), shape)

    def one_text(self, value: object, where: str, shape: Shape) -> str:
        if isinstance(value, str) and shape.fits(value):
            return value
        self.find(where, f"{str(value)[:80]!r} is not {shape.words}")
        return ""

    def distinct(self, values: Sequence[str], where: str) -> None:
        for value in sorted({value for value in values if values.count(value) > 1}):
            self.find(where, f"{value!r} occurs twice")


def at(where: str, name: str) -> str:
    """Path of a field; `where` is empty for what a document holds itself."""
    return f"{where}.{name}" if where else name
