"""Every document a person hands us: what is told when it is missing, a folder, below a file, or not what it should be.

A message names the file, and where there is one the line or the field; no number of the system, no words of a library.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard import GuardError, Ledger, load_evidence, load_key, load_windows
from pulumi_infercrane.guard.collect.prices import load_prices
from pulumi_infercrane.guard.collect.recording import load_recording
from pulumi_infercrane.guard.collect.tasks import load_tasks
from pulumi_infercrane.stacks.cli import cli
from pulumi_infercrane.stacks.config import from_file
from pulumi_infercrane.stacks.errors import StackError
from pulumi_infercrane.stacks.policy_file import read_policy
from pulumi_infercrane.stacks.project import find_project
from pulumi_infercrane.stacks.yaml_lines import read_yaml
from tests.stacks.test_config import GOOD

LIBRARIES = re.compile(
    r"Errno|Input should|Extra inputs|Field required|valid (integer|string)|codec can't|Traceback|Value error"
)
NO_FILE = "there is no such file"
A_FOLDER = "it is a folder, and a file is meant"
BELOW_A_FILE = "a part of the path is a file"

Reader = Callable[[Path], Any]


def explained(path: Path) -> None:
    _run("explain", path)


def as_subject(path: Path) -> None:
    _run("import", __file__, "--kind", "quality", "--role", "candidate", "--scenario", "s", "--subject", path)


def _run(*arguments: object) -> None:
    result = CliRunner().invoke(cli, ["guard", *map(str, arguments)])
    assert (result.exit_code, result.stdout) == (2, "")
    raise GuardError(result.stderr)


def configured(text: str | bytes, folder: Path) -> None:
    """A stack whose settings are this text."""
    (folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (folder / "Pulumi.dev.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    from_file(find_project(folder, "dev"))


def told(read: Callable[[], object]) -> str:
    with pytest.raises((GuardError, StackError)) as raised:
        read()
    assert not LIBRARIES.search(str(raised.value)), raised.value
    return str(raised.value)


YAML: dict[str, Reader] = {"policy": read_policy, "prices": load_prices, "tasks": load_tasks, "settings": read_yaml}
LINES: dict[str, Reader] = {
    "ledger": lambda path: list(Ledger(path).entries()),
    "recording": lambda path: load_recording(path, 1),
}
OTHERS: dict[str, Reader] = {"key": load_key, "window": lambda path: load_windows([path])}
JSON: dict[str, Reader] = {"record": explained, "subject": as_subject}
CALLED = YAML | LINES | OTHERS


@pytest.mark.parametrize("name", sorted(CALLED.keys() - {"ledger"}))
def test_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    assert re.search(rf"none\.x: .*{NO_FILE}", told(lambda: CALLED[name](tmp_path / "none.x")))


@pytest.mark.parametrize("name", sorted(CALLED.keys() - {"window", "recording"}))
def test_a_folder_in_place_of_a_file(name: str, tmp_path: Path) -> None:
    assert re.search(rf"{tmp_path.name}: .*{A_FOLDER}", told(lambda: CALLED[name](tmp_path)))


@pytest.mark.parametrize("name", CALLED)
def test_a_path_through_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert re.search(rf"file/x: .*{BELOW_A_FILE}", told(lambda: CALLED[name](tmp_path / "file" / "x")))


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize(("place", "why"), [("none", NO_FILE), ("file/x", BELOW_A_FILE), ("", "is a directory")])
def test_a_file_that_a_command_cannot_read(name: str, place: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / place
    assert re.search(rf"{path}.*{why}", told(lambda: JSON[name](path)))


def test_an_evidence_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert NO_FILE in told(lambda: load_evidence(tmp_path / "none"))
    assert BELOW_A_FILE in told(lambda: load_evidence(tmp_path / "file"))


@pytest.mark.parametrize("name", YAML)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: b\n\xff: c", "not UTF-8 at byte 5"),
        (b"a: b\nc: [", "x.yaml:2: not valid YAML"),
        (b"a: b\nc: d\n : e: f", "x.yaml:3: not valid YAML"),
        (b"a: b\nc: \x07", r"x.yaml:2: not valid YAML: the character '\x07'"),
        (b"- a\n- b", "a mapping"),
        (b"schema: 1\nschema: 2\n", "x.yaml:2: "),
    ],
)
def test_yaml_that_is_none(name: str, text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(text)
    found = told(lambda: YAML[name](file))
    assert message in found.replace("not a mapping", "a mapping")
    assert "x.yaml" in found


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b'{\n  "a": }', "a value was expected (line 2, column 8)"),
        (b'{"a": 1', "',' was expected (ends too early)"),
        (b"{}\n{}", "more follows after the first JSON document (line 2, column 1)"),
        (b'{"a": 1, "a": 2}', "key 'a' occurs twice"),
    ],
)
def test_json_that_is_none(name: str, text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text)
    found = told(lambda: JSON[name](file))
    assert f"{file}: " in found
    assert message in found


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_no_json_is_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("{]\n")
    assert re.search(r"x\.jsonl:( line )?1: ", told(lambda: LINES[name](file)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("  infercrane:candidate: r2", "  infercrane:candidate: [r2]"),
            "dev.yaml:3: infercrane:candidate: a text was",
        ),
        (("drainS: 5.0", "drainS: soon"), "dev.yaml:6: infercrane:router.drainS: a number was expected"),
        (("drainS: 5.0", "drainS: -1.0"), "dev.yaml:6: infercrane:router.drainS: must be at least 0"),
        (("drainS: 5.0", "workers: 1.5"), "dev.yaml:6: infercrane:router.workers: a whole number was expected"),
        (("{listen", "[{listen"), "dev.yaml:7: not valid YAML"),
        (("threads: 1", "threads: one"), "settings.threads: a whole number was expected, not 'one'"),
        (("version: b1", "version: 7"), "dev.yaml:12: runtime.version: a text was expected"),
        (("version: b1", "versoin: b1"), "runtime.versoin: unknown key, did you mean 'version'?"),
        (("service: chat", "service: Chat"), "dev.yaml:2: infercrane:service: not a lower-case letter and up to"),
        (("service: chat", "service: 2026-99-99"), "dev.yaml: not valid YAML: "),
        (("r1:\n", "5:\n"), "infercrane:revisions.5: a text was expected"),
    ],
)
def test_a_field_of_a_stack(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert change[0] in GOOD
    assert message in told(lambda: configured(GOOD.replace(*change), tmp_path))


@pytest.mark.parametrize("text", ["config: [1]", "config: text"])
def test_settings_that_are_no_mapping(text: str, tmp_path: Path) -> None:
    assert told(lambda: configured(text, tmp_path)) == "Pulumi.dev.yaml:1: config: a mapping was expected"


def test_a_project_that_is_no_mapping_of_mappings(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nbackend: file://.\n")
    assert "Pulumi.dev.yaml: no such file" in told(lambda: find_project(tmp_path, "dev"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rules": [{"rule": 5}]}, "rules.0.rule: a text was expected"),
        ({"evidence": {}}, "evidence: a list was expected"),
        ({"verdict": "maybe"}, "verdict: 'promote', 'reject' or 'insufficient_evidence' was expected"),
        ({"candidate": "r2"}, "candidate: not sha256: and 64 hex digits in lower case"),
        ({"as_of": "today"}, "as_of: not a UTC time like 2026-11-30T05:00:00Z"),
        ({}, "decision_id: is missing"),
    ],
)
def test_a_field_of_a_record(change: dict[str, object], message: str, tmp_path: Path) -> None:
    digest, moment = "sha256:" + "a" * 64, "2026-11-30T05:00:00Z"
    texts = ("guard_version", "service", "stack", "first_reason")
    record = {
        "schema": "infercrane.decision/v1",
        **dict.fromkeys(("decision_id", "candidate", "policy_digest"), digest),
        **dict.fromkeys(texts, "x"),
        **{key: [] for key in ("rules", "evidence", "reasons")},
        "decision_type": "bootstrap",
        "verdict": "promote",
        "action": "flip",
        "as_of": moment,
    } | change
    if not change:
        del record["decision_id"]
    file = tmp_path / "record.json"
    file.write_text(json.dumps(record))
    assert f"{file}: not a decision record: {message}" in told(lambda: explained(file))
