"""What pydantic finds wrong with a document, in the words of our other messages."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from pulumi_infercrane.guard.printable import nearest, one_line

_SHA256, _HEX64 = r"^sha256:[0-9a-f]{64}$", r"^[0-9a-f]{64}$"
_FORMS = {
    _SHA256: "not sha256: and 64 hex digits in lower case",
    _HEX64: "not 64 hex digits in lower case",
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$": "not a UTC time like 2026-11-30T05:00:00Z",
    r"^\d{4}-\d\d-\d\d$": "not a date like 2026-11-30",
    r"^[A-Z]{3}$": "not a code of three capital letters, such as USD",
    r"^[a-z][a-z0-9-]{0,30}$": "not a lower-case letter and up to 30 more letters, digits or '-'",
    r"\S": "must not be blank",
}
"""Every pattern that a document we type has."""

_EXPECTED = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
}
_BOUNDS = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "string_too_long": "has more than {max_length} characters",
    "too_short": "needs at least {min_length}",
    "too_long": "has more than {max_length}",
}


@dataclass(frozen=True)
class Terms:
    """What a format calls a value by name, and several of them."""

    field: str
    fields: str


JSON = Terms("field", "an object")
YAML = Terms("key", "a mapping")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where, and pydantic's stable word for it."""

    path: tuple[str, ...]
    type: str
    text: str

    @property
    def field(self) -> str:
        """Keys and list positions with dots between; empty for the document itself."""
        return one_line(".".join(self.path))


def findings(error: ValidationError, model: type[BaseModel], terms: Terms = JSON) -> tuple[Finding, ...]:
    """Everything that was found wrong with a document of type `model`; what has several types is one finding."""
    details = error.errors(include_url=False, include_input=False)
    places = itertools.groupby(details, key=_place)
    return tuple(_finding(path, list(group), model, terms) for path, group in places)


def _place(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Without the name of the branch, where a value may be of several types, and without pydantic's mark of a key.

    The last part of what should not be there is its own name, whatever it is.
    """
    if detail["type"] == "extra_forbidden":
        return tuple(str(part) for part in detail["loc"])
    path = [str(part) for part in detail["loc"] if part != "[key]"]
    if path and (path[-1] in _BRANCHES or path[-1].startswith("literal[")):
        path.pop()
    return tuple(path)


_BRANCHES = ("str", "int", "float", "bool")


def _finding(path: tuple[str, ...], details: Sequence[Any], model: type[BaseModel], terms: Terms) -> Finding:
    first = details[0]["type"]
    if first == "extra_forbidden":
        known = _names(model, path[:-1])
        return Finding(path, first, f"unknown {terms.field}" + (f", {nearest(path[-1], known)}" if known else ""))
    wanted = [_expected(detail, terms) for detail in details]
    if all(wanted):
        return Finding(path, first, f"{' or '.join(dict.fromkeys(wanted))} was expected")
    return Finding(path, first, _text(first, details[0].get("ctx", {}), details[0]["msg"]))


def _expected(detail: Mapping[str, Any], terms: Terms) -> str:
    """What type was expected; empty when the type was right."""
    if detail["type"] == "literal_error":
        return str(detail["ctx"]["expected"])
    what, _, rest = detail["type"].partition("_")
    if rest not in ("type", "parsing", "from_float", "attributes_type"):
        return ""
    return terms.fields if what in ("model", "dict", "mapping") else _EXPECTED.get(what, "")


def _text(kind: str, context: Mapping[str, Any], said: str) -> str:
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "string_pattern_mismatch":
        return _FORMS.get(context["pattern"], f"does not have the form {context['pattern']}")
    return _BOUNDS[kind].format(**{name: _plain(bound) for name, bound in context.items()}) if kind in _BOUNDS else said


def _plain(bound: Any) -> Any:
    """A whole number without a point, as the bounds of our own messages are."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _names(model: type[BaseModel], path: Sequence[str]) -> tuple[str, ...]:
    """The names known in the block at `path`, as documents write them; none where any name may stand."""
    block: type[BaseModel] | None = model
    for part in path:
        if block is not None and not part.isdecimal():
            block = _blocks(block).get(part)
    return tuple(field.alias or name for name, field in block.model_fields.items()) if block else ()


def _blocks(model: type[BaseModel]) -> Mapping[str, type[BaseModel] | None]:
    return {field.alias or name: _block(field.annotation) for name, field in model.model_fields.items()}


def _block(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None` or `tuple[Model, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _block(part))), None)
