"""Files that are given to a collector, YAML or JSON: what reading any of them has in common."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pulumi_infercrane.guard.collect.target import CollectError
from pulumi_infercrane.guard.errors import PolicyError
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.policy_yaml import Node, read_yaml

_T = TypeVar("_T")


def load_file(path: Path, what: str, read: Callable[[Node], _T]) -> _T:
    """What `read` makes of the file; `what` names it in messages, such as "task file".

    Raises:
        CollectError: `tasks.yaml:12: unknown key 'promt', did you mean 'prompt'?`
    """
    try:
        return read(replace(read_yaml(path.read_bytes(), path.name), name=f"the {what}"))
    except OSError as error:
        raise CollectError(f"{path}: the {what} cannot be read: {why(error)}") from error
    except PolicyError as error:
        raise CollectError(str(error)) from error


def fields_of(root: Node, schema: str, keys: Sequence[str]) -> Mapping[str, Node]:
    """The fields of a document, all of which it must have, with that `schema`."""
    fields = root.mapping(keys, required=keys)
    if fields["schema"].text() != schema:
        raise fields["schema"].error(f"schema must be {schema}")
    return fields


def unique(node: Node, read: Callable[[Node], _T], key: Callable[[_T], Hashable], twice: str) -> Iterator[_T]:
    """The entries of a list; `twice` is the message about one whose key another had, with the entry for `{}`."""
    seen: set[Hashable] = set()
    for entry in node.items():
        item = read(entry)
        if key(item) in seen:
            raise entry.error(twice.format(item))
        seen.add(key(item))
        yield item
