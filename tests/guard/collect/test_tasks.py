"""Task files are read strictly, and answers are scored by whole words."""

import json
import runpy
from pathlib import Path

import pytest

from pulumi_infercrane.guard.collect import CollectError
from pulumi_infercrane.guard.collect.tasks import Item, TaskSet, load_tasks

EXAMPLES = Path(__file__).parents[3] / "examples" / "tasks"
GOOD = """\
schema: infercrane.tasks/v1
name: basics
metric: contains
max_tokens: 8
items:
  - {id: a, prompt: "What is 2 + 2?", expect: ["4"]}
  - {id: b, prompt: "Capital of France?", expect: [Paris]}
"""


def read(tmp_path: Path, text: str) -> TaskSet:
    path = tmp_path / "tasks.yaml"
    path.write_text(text)
    return load_tasks(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('prompt: "Capital', 'promt: "Capital', r"tasks\.yaml:7: unknown key 'promt', did you mean 'prompt'\?"),
        ("id: b", "id: a", r"tasks\.yaml:7: id 'a' is used twice"),
        ("id: b", "id: b c", r"tasks\.yaml:7: id: 'b c' has other characters"),
        (", expect: [Paris]", "", r"tasks\.yaml:7: items: 'expect' is missing"),
        ("expect: [Paris]", "expect: []", r"tasks\.yaml:7: expect: at least one word"),
        ("expect: [Paris]", "expect: Paris", r"tasks\.yaml:7: expect: a list was expected"),
        ("max_tokens: 8", "max_tokens: 0", r"tasks\.yaml:4: max_tokens: 0 is not between 1 and 4096"),
        ("infercrane.tasks/v1", "infercrane.tasks/v2", r"tasks\.yaml:1: schema must be infercrane\.tasks/v1"),
        ("name: basics\n", "", r"the task file: 'name' is missing"),
    ],
)
def test_errors_name_line_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(CollectError, match=message):
        read(tmp_path, GOOD.replace(old, new))


def test_a_file_without_items(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="1 to 100000 are needed, found 0"):
        read(tmp_path, GOOD.partition("items:")[0] + "items: []\n")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match=r"none\.yaml: the task file cannot be read"):
        load_tasks(tmp_path / "none.yaml")


def test_json_is_read_too_and_has_the_same_digest(tmp_path: Path) -> None:
    items = [
        {"id": "a", "prompt": "What is 2 + 2?", "expect": ["4"]},
        {"id": "b", "prompt": "Capital of France?", "expect": ["Paris"]},
    ]
    document = {"schema": "infercrane.tasks/v1", "name": "basics", "metric": "contains", "max_tokens": 8}
    assert read(tmp_path, json.dumps(document | {"items": items})).digest == read(tmp_path, GOOD).digest


def test_another_item_gives_another_digest(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).digest != read(tmp_path, GOOD.replace("Paris", "Rome")).digest


@pytest.mark.parametrize(
    ("text", "score"),
    [("It is 4.", 1), ("4", 1), ("It is FOUR!", 1), ("14", 0), ("4th", 0), ("fourteen", 0), ("", 0)],
)
def test_contains_looks_for_whole_words_in_any_case(text: str, score: int) -> None:
    tasks = TaskSet("t", "contains", 8, ())
    assert tasks.score(Item("a", "?", ("4", "four")), text) == score


@pytest.mark.parametrize(("text", "score"), [(" paris\n", 1), ("Paris.", 0), ("It is Paris", 0)])
def test_exact_wants_nothing_but_the_word(text: str, score: int) -> None:
    assert TaskSet("t", "exact", 8, ()).score(Item("a", "?", ("Paris",)), text) == score


def test_an_expected_sign_is_found_too() -> None:
    assert TaskSet("t", "contains", 8, ()).score(Item("a", "?", ("C++",)), "I like C++ best") == 1


def test_the_example_is_what_its_generator_writes() -> None:
    assert runpy.run_path(str(EXAMPLES / "generate.py"))["render"]() == (EXAMPLES / "basics.yaml").read_text()


def test_the_example_has_enough_different_questions_to_decide() -> None:
    items = load_tasks(EXAMPLES / "basics.yaml").items
    assert len({item.prompt for item in items}) == len(items) >= 300
