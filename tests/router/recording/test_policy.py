"""The recording policy is read strictly, and allows little by default."""

from pathlib import Path

import pytest

from pulumi_infercrane.router.errors import RecordingRefused
from pulumi_infercrane.router.recording.policy import RecordingPolicy, read_policy

SMALLEST = "schema: infercrane.recording/v1\nfolder: recordings\nsample: 0.05\n"


def read(tmp_path: Path, text: str) -> RecordingPolicy:
    path = tmp_path / "record.yaml"
    path.write_text(text)
    return read_policy(path)


def test_by_default_no_content_is_kept(tmp_path: Path) -> None:
    policy = read(tmp_path, SMALLEST)
    assert policy == RecordingPolicy(tmp_path / "recordings", 0.05)
    assert (policy.what, policy.redact, policy.max_age_s) == ("metadata", (), 7 * 86_400)


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    more = "what: content\nredact: [emails, digits]\nmax_bytes: 8388608\nmax_age: 24h\n"
    policy = read(tmp_path, SMALLEST + more)
    assert policy == RecordingPolicy(tmp_path / "recordings", 0.05, "content", ("emails", "digits"), 8_388_608, 86_400)


def test_json_is_yaml(tmp_path: Path) -> None:
    assert read(tmp_path, '{"schema": "infercrane.recording/v1", "folder": "r", "sample": 1}').sample == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a mapping was expected"),
        ("a: [", ":1: not valid YAML: "),
        ("a: \x07", "record.yaml: not valid YAML: something in it is not UTF-8 text"),
        (SMALLEST.replace("sample", "smaple"), "unknown key 'smaple', did you mean 'sample'?"),
        (SMALLEST.replace("sample: 0.05\n", ""), "'sample' is missing"),
        (SMALLEST.replace("0.05", "2"), "sample: a number from 0 to 1 was expected, not 2"),
        (SMALLEST.replace("0.05", "true"), "sample: a number"),
        (SMALLEST.replace("v1", "v9"), "schema must be infercrane.recording/v1"),
        (SMALLEST + "what: everything\n", "what: 'everything' is not one of metadata, content"),
        (SMALLEST + "redact: emails\n", "redact: a list was expected"),
        (SMALLEST + "redact: [names]\n", "redact: 'names' is not one of digits, emails"),
        (SMALLEST + "max_bytes: 10\n", "max_bytes: a number from"),
        (SMALLEST + "max_age: forever\n", "max_age: 'forever' is not a duration"),
        (SMALLEST + "max_age: 0d\n", "max_age"),
        (SMALLEST + "# " + "x" * 70_000, "may have 65536 bytes"),
        ("!!python/object/apply:os.getcwd []", ":1: not valid YAML: "),
    ],
)
def test_errors_name_the_key_and_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecordingRefused) as refused:
        read(tmp_path, text)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'record.yaml'}:")
    assert "\n" not in str(refused.value)


def test_a_policy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordingRefused, match="cannot be read: No such file"):
        read_policy(tmp_path / "none.yaml")
