"""First steps every reader of a foreign tool shares: the kind, the document, the one run that is meant."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import bad, field
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

T = TypeVar("T")


def check_kind(envelope: Envelope, *kinds: str) -> None:
    """The envelope asks for a kind of evidence this tool can give.

    Raises:
        Inadmissible: `tool_unknown`.
    """
    if envelope.kind not in kinds:
        detail = f"{envelope.primary.tool} gives evidence of kind {' and '.join(kinds)}, not {envelope.kind!r}"
        raise Inadmissible("tool_unknown", detail)


def parse_object(data: bytes, envelope: Envelope, required: Collection[str]) -> dict[str, Any]:
    """One JSON object with all `required` keys.

    Raises:
        Inadmissible: what `strict_json.parse` raises, or `schema_unknown`.
    """
    return check_layout(parse(data), envelope, required)


def check_layout(document: Any, envelope: Envelope, required: Collection[str]) -> dict[str, Any]:
    """The document, when it is an object with all `required` keys: this is how a file without a version is known.

    Raises:
        Inadmissible: `schema_unknown`.
    """
    if not isinstance(document, dict):
        raise Inadmissible("schema_unknown", f"not a file of {envelope.primary.tool}: an object was expected")
    missing = sorted(set(required) - document.keys())
    if missing:
        raise Inadmissible("schema_unknown", f"not a file of {envelope.primary.tool}: no {', '.join(missing)}")
    return document


def selected(envelope: Envelope, key: str, first: int, runs: int) -> int:
    """Position, from 0, of the run that `select` names by `key`, counted from `first`; of the only one without it.

    Raises:
        Inadmissible: `ambiguous_run`.
    """
    select = envelope.primary.select or {}
    if not select and runs == 1:
        return 0
    number = select.get(key)
    if list(select) != [key] or not isinstance(number, int) or not first <= number < first + runs:
        last = first + runs - 1
        detail = f"{runs} runs in the file: name one with files[].select {{{key!r}: {first}..{last}}}"
        raise Inadmissible("ambiguous_run", detail)
    return number - first


def child(mapping: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """A required object.

    Raises:
        Inadmissible: `bad_value`.
    """
    return field(mapping, name, dict, where)


def named(found: Mapping[str, T], envelope: Envelope, key: str, what: str) -> T:
    """The only one of several things by name, or the one that `select` names.

    Raises:
        Inadmissible: `no_evidence` without any, `ambiguous_run` when several are there and none is named,
            `bad_value` when the named one is not there.
    """
    if not found:
        raise Inadmissible("no_evidence", f"the file holds no {what}")
    name = (envelope.primary.select or {}).get(key)
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(sorted(found)[:5])
    if name is None:
        raise Inadmissible("ambiguous_run", f"{len(found)} of {what}: name one with files[].select {key} ({names})")
    if str(name) not in found:
        raise bad("", f"files[].select {key} is {name!r}, the file holds {names}")
    return found[str(name)]
