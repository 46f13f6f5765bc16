"""Task files (`infercrane.tasks/v1`, YAML or JSON): questions with known answers, and how an answer is scored."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.given_files import fields_of, load_file, unique
from pulumi_infercrane.guard.policy_yaml import Node

SCHEMA = "infercrane.tasks/v1"
METRICS = ("contains", "exact")
MAX_ITEMS = 100_000

_KEYS = ("schema", "name", "metric", "max_tokens", "items")
_ITEM_KEYS = ("id", "prompt", "expect")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True)
class Item:
    """One question; any of the expected words is right."""

    id: str
    prompt: str
    expect: tuple[str, ...]


@dataclass(frozen=True)
class TaskSet:
    """A task file. `name` is the `<task>` of the rules `quality.<task>`."""

    name: str
    metric: str
    max_tokens: int
    items: tuple[Item, ...]

    @property
    def digest(self) -> str:
        """`sha256:…` of the content, whatever its spelling in the file."""
        return digest(asdict(self))

    def score(self, item: Item, text: str) -> int:
        """1 when the answer is right, else 0; case does not matter.

        `contains`: an expected word occurs as a whole word. `exact`: the answer is an expected word and nothing else.
        """
        if self.metric == "exact":
            return int(text.strip().casefold() in {word.casefold() for word in item.expect})
        return int(any(_occurs(word, text) for word in item.expect))


def load_tasks(path: Path) -> TaskSet:
    """Read and check a task file.

    Raises:
        CollectError: `tasks.yaml:12: unknown key 'promt', did you mean 'prompt'?`
    """
    return load_file(path, "task file", _task_set)


def _task_set(root: Node) -> TaskSet:
    fields = fields_of(root, SCHEMA, _KEYS)
    items = tuple(unique(fields["items"], _item, lambda item: item.id, "id {0.id!r} is used twice"))
    if not 0 < len(items) <= MAX_ITEMS:
        raise fields["items"].error(f"items: 1 to {MAX_ITEMS} are needed, found {len(items)}")
    return TaskSet(
        name=_name(fields["name"]),
        metric=fields["metric"].choice(*METRICS),
        max_tokens=fields["max_tokens"].integer(1, 4096),
        items=items,
    )


def _item(node: Node) -> Item:
    fields: Mapping[str, Any] = node.mapping(_ITEM_KEYS, required=_ITEM_KEYS)
    expect = tuple(word.text() for word in fields["expect"].items())
    if not expect:
        raise fields["expect"].error("expect: at least one word is needed")
    return Item(id=_name(fields["id"]), prompt=fields["prompt"].text(), expect=expect)


def _name(node: Node) -> str:
    if not _NAME.fullmatch(node.text()):
        raise node.error(f"{node.name}: {node.text()!r} has other characters than letters, digits, '_' and '-'")
    return node.text()


def _occurs(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None
