"""Changes to an input that its parser survives: to the tree of a document rather than to its bytes.

Bytes alone seldom get past a parser that refuses duplicate keys and trailing commas, and then test nothing else.
"""

import copy
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import yaml

from pulumi_infercrane.guard.evidence.reading import archive
from pulumi_infercrane.guard.reasons import Inadmissible
from tests.fuzz import parcel

Bytewise = Callable[[bytes, int], bytes]
"""The engine's own mutation: the input and how long the result may be."""

Mutate = Callable[[bytes, int, Random, Bytewise], bytes]
"""An input, how long the result may be, where chance comes from, and what to do with bytes of no format."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -0.0, 1, -1, 0.5, 1e-300, 1e308, 10**6, 2**53, 2**63, 10**400),
    *("", " ", "NaN", "inf", "12", "1.5", "true", "é\0", "\ud800", "x" * 600, "../../etc/passwd", "sha256:" + "0" * 64),
    *("2026-11-30T04:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-30", "9999-12-31", "0001-01-01"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "٢٠٢٦-١١-٣٠", "2026-02-30T00:00:00Z"),
    *([], {}, [[]], [None], [0, 1], {"a": []}, {"": None}),
)
BYTES_OF_TREES = 0.2
"""How often a document that could be changed as a tree is changed as bytes all the same."""


def input_mutated(data: bytes, limit: int, source: Random, bytewise: Bytewise, *, head: float = 0.1) -> bytes:
    """A parcel with one of its parts changed, or, with probability `head`, what is before them."""
    pieces = data.split(parcel.MARK)
    place = 0 if len(pieces) == 1 or source.random() < head else source.randrange(1, len(pieces))
    pieces[place] = mutated(pieces[place], limit, source, bytewise)
    return parcel.MARK.join(pieces)[:limit]


def mutated(data: bytes, limit: int, source: Random, bytewise: Bytewise) -> bytes:
    """A document changed in one to three places, in its own format where it has one."""
    if source.random() >= BYTES_OF_TREES:
        for change in (_json, _lines, _zip, _yaml):
            changed = change(data, limit, source)
            if changed is not None:
                return changed[:limit]
    return bytewise(data, limit)


def _json(data: bytes, limit: int, source: Random) -> bytes | None:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _written(edited(tree, source))


def _lines(data: bytes, limit: int, source: Random) -> bytes | None:
    lines = data.splitlines(keepends=True)
    if not data.startswith(b"{") or len(lines) < 2:
        return None
    place = source.randrange(len(lines))
    action = source.randrange(8)
    if action == 0:
        del lines[place]
    elif action == 1:
        lines.insert(source.randrange(len(lines)), lines[place])
    else:
        changed = _json(lines[place], limit, source)
        if changed is None:
            return None
        lines[place] = changed + b"\n"
    return b"".join(lines)


def _zip(data: bytes, limit: int, source: Random) -> bytes | None:
    try:
        found = dict(archive.members(data, lambda name: True))
    except Inadmissible:
        return None
    if not found:
        return None
    name = source.choice(sorted(found))
    if source.random() < 0.1:
        del found[name]
    else:
        found[name] = _json(found[name], limit, source) or found[name][: len(found[name]) // 2]
    return zipped(found)


def zipped(members: dict[str, bytes]) -> bytes:
    """An archive that stores its members; without a date, so that it is the same every time."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as stored:
        for name, content in members.items():
            stored.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _yaml(data: bytes, limit: int, source: Random) -> bytes | None:
    if b":" not in data[:200] or b"\0" in data:
        return None
    try:
        tree = edited(yaml.load(data, Loader=_LOADER), source)
        return bytes(yaml.dump(tree, Dumper=_DUMPER, sort_keys=False, encoding="utf-8", allow_unicode=True))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return None


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The parser under test is the one in Python; the changes to its input need not be as slow."""


def _written(tree: Any) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def edited(tree: Any, source: Random) -> Any:
    """The tree with one to three of its places changed."""
    holder = [tree]
    for _ in range(source.choice((1, 1, 2, 3))):
        container, key = _place(holder, source)
        _edit(container, key, source, holder)
    return holder[0] if holder else None


def _place(holder: list[Any], source: Random) -> tuple[Any, Any]:
    """A container and a key in it: a walk from the top that may stop anywhere."""
    container: Any = holder
    while True:
        key = source.choice(list(_keys(container)))
        child = container[key]
        if not isinstance(child, dict | list) or not child or source.random() < 0.15:
            return container, key
        container = child


def _keys(container: Any) -> Iterator[Any]:
    return iter(container) if isinstance(container, dict) else iter(range(len(container)))


def _edit(container: Any, key: Any, source: Random, holder: list[Any]) -> None:
    action = source.randrange(10)
    top = container is holder
    if action == 0 and not top:
        del container[key]
    elif action == 1 and isinstance(container, list) and not top:
        container.insert(key, copy.deepcopy(container[key]))
    elif action == 2 and isinstance(container, dict):
        container[source.choice((*container, "", "x"))] = container.pop(key)
    elif action == 3:
        other, place = _place(holder, source)
        container[key] = copy.deepcopy(other[place])
    elif action == 4 and isinstance(container[key], list):
        container[key] = container[key][: source.randrange(len(container[key]) + 1)]
    elif action <= 7 and _is_number(container[key]):
        container[key] = _other_number(container[key], source)
    else:
        container[key] = copy.deepcopy(source.choice(VALUES))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _other_number(value: float, source: Random) -> float:
    try:
        return source.choice((-value, value + 1, value - 1, value * 1000, value / 1000, int(value), value + 0.5))
    except (OverflowError, ValueError):
        return 0
