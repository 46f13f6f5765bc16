"""YAML nodes that know their line: safe tags only, no aliases, no repeated keys."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import yaml
from yaml.composer import ComposerError
from yaml.reader import ReaderError

from pulumi_infercrane.guard.errors import PolicyError
from pulumi_infercrane.guard.printable import nearest

MAX_BYTES = 1024 * 1024
_T = TypeVar("_T")


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ComposerError(None, None, "aliases are not used here: write the value out", mark)
        return super().compose_node(parent, index)


def read_yaml(data: bytes, source: str) -> "Node":
    """The top node of one document.

    Raises:
        PolicyError: with the line, when the text is not one YAML document.
    """
    if len(data) > MAX_BYTES:
        raise PolicyError(f"{source}: {len(data)} bytes, at most {MAX_BYTES} are read")
    try:
        text = data.decode()
        node = yaml.compose(text, Loader=_Loader)
    except UnicodeDecodeError as error:
        raise PolicyError(f"{source}: not UTF-8 at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        what = "" if isinstance(error, ComposerError) else "not valid YAML: "
        raise PolicyError(f"{source}{line}: {what}{error.problem}") from error
    except ReaderError as error:
        place = f"{source}:{text.count(chr(10), 0, error.position) + 1}"
        raise PolicyError(f"{place}: not valid YAML: the character {chr(error.character)!a}") from error
    except RecursionError as error:
        raise PolicyError(f"{source}: not valid YAML: nested too deep") from error
    if node is None:
        raise PolicyError(f"{source}: the file is empty")
    return Node(node, source, "the policy")


@dataclass(frozen=True)
class Node:
    """One value of the file; `name` is the key it stands under. Every reader raises PolicyError with the line."""

    node: yaml.Node
    source: str
    name: str

    @property
    def line(self) -> int:
        """Line number from 1."""
        return int(self.node.start_mark.line) + 1

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    def error(self, text: str) -> PolicyError:
        """A PolicyError that names file and line."""
        return PolicyError(f"{self.source}:{self.line}: {text}")

    def mapping(self, known: Sequence[str] | None = None, required: Sequence[str] = ()) -> Mapping[str, "Node"]:
        """The entries by key; with `known`, any other key is refused and the nearest valid one is named."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{self.name}: a mapping was expected")
        entries: dict[str, Node] = {}
        for key_node, value in self.node.value:
            key = Node(key_node, self.source, "key")
            name = key.text()
            if name in entries:
                raise key.error(f"key {name!r} is written twice: put what belongs to it below one")
            if known is not None and name not in known:
                raise key.error(f"unknown key {name!r}, {nearest(name, known)}")
            entries[name] = Node(value, self.source, name)
        for name in required:
            if name not in entries:
                raise self.error(f"{self.name}: {name!r} is missing")
        return entries

    def items(self) -> Iterator["Node"]:
        """The entries of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"{self.name}: a list was expected")
        return (Node(value, self.source, self.name) for value in self.node.value)

    def text(self) -> str:
        value = self._scalar()
        if not value:
            raise self.error(f"{self.name}: must not be empty")
        return value

    def choice(self, *allowed: str) -> str:
        if self._scalar() not in allowed:
            raise self.error(f"{self.name}: {self._scalar()!r} is not one of {', '.join(allowed)}")
        return self._scalar()

    def boolean(self) -> bool:
        return self.choice("true", "false") == "true"

    def number(self, low: float, high: float) -> float:
        """A finite number in [low, high]."""
        value = self.parsed(_number)
        if not math.isfinite(value) or not low <= value <= high:
            raise self.error(f"{self.name}: {self._scalar()} is not between {low:g} and {high:g}")
        return value

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        value = self.parsed(_whole)
        if not low <= value <= high:
            raise self.error(f"{self.name}: {value} is not between {low} and {high}")
        return value

    def parsed(self, parse: Callable[[str], _T]) -> _T:
        """The scalar through a parser that raises ValueError."""
        try:
            return parse(self._scalar())
        except ValueError as error:
            raise self.error(f"{self.name}: {error}") from error

    def _scalar(self) -> str:
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error(f"{self.name}: a single value was expected")
        return str(self.node.value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        hint = ": a share of 1 % is 0.01" if text.endswith("%") else ""
        raise ValueError(f"{text!r} is not a number{hint}") from error


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a whole number") from error
