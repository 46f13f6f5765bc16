"""inspect_ai logs: the archive and the dump of one run read the same; a run that did not end proves nothing."""

import io
import json
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

TOOL, VERSION = "inspect-ai", "0.3.285"


@pytest.fixture
def dump(samples) -> Callable[..., dict[str, bytes]]:
    """The candidate's log as `inspect log dump` prints it, changed by `edit`."""

    def read(edit: Any = None) -> dict[str, bytes]:
        log = json.loads((samples / "inspect-ai" / "cand_dump.json").read_bytes())
        if edit:
            edit(log)
        return {"primary": json.dumps(log).encode()}

    return read


@pytest.fixture
def read(dump, loaded) -> Callable[..., Any]:
    return lambda edit=None, **envelope: loaded(TOOL, VERSION, dump(edit), **envelope)


def archive(log: dict[str, Any]) -> bytes:
    """The log as the archive of a version before 0.3.2xx."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for sample in log.pop("samples"):
            file.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        file.writestr("header.json", json.dumps(log))
    return data.getvalue()


def test_a_log_becomes_answers_by_sample(read):
    record = read().record
    assert (record.task, record.metric, record.attempted, record.planned) == ("guard", "includes", 40, 40)
    assert sum(answer.score for answer in record.answers.values()) == 19
    assert record.summary.value == 0.475
    assert all(answer.ok and answer.cut and not answer.empty for answer in record.answers.values())


def test_i1_an_archive_compressed_with_zstandard_reads_as_its_dump(samples, loaded, read):
    raw = (samples / "inspect-ai" / "cand.eval").read_bytes()
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        assert {member.compress_type for member in file.infolist()} == {93}
    assert loaded(TOOL, VERSION, {"primary": raw}, name="eval").record == read(name="eval").record


def test_i1_so_does_an_older_archive(dump, loaded, read):
    raw = archive(json.loads(dump()["primary"]))
    assert loaded(TOOL, VERSION, {"primary": raw}, name="eval").record == read(name="eval").record


def test_i1_without_zstandard_the_error_names_the_extra(samples, loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    problem = loaded(TOOL, VERSION, {"primary": (samples / "inspect-ai" / "cand.eval").read_bytes()}).problem
    assert problem.code == "tool_unknown"
    assert "pip install 'pulumi-infercrane[inspect]', or dump it as JSON with `inspect log dump`" in problem.detail


@pytest.mark.parametrize("status", ["cancelled", "started", "error"])
def test_i2_a_run_that_did_not_end_is_truncated_however_good_its_accuracy(read, status):
    problem = read(lambda log: log.update(status=status)).problem
    assert str(problem) == f"truncated: status is '{status}': the run did not come to its end"


def test_i2_an_archive_without_a_header_did_not_end_either(loaded):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("_journal/start.json", "{}")
    assert loaded(TOOL, VERSION, {"primary": data.getvalue()}).problem.code == "truncated"


@pytest.mark.parametrize("results", [{"scores": []}, None])
def test_i3_success_without_scores_has_no_scores(read, results):
    assert read(lambda log: log.update(results=results)).problem.code == "no_scores"


def test_i4_a_part_of_the_data_set_is_known_by_its_ids(read):
    def part(log):
        log["eval"]["dataset"] |= {"samples": 14042, "sample_ids": [1, 2, 3]}
        log["samples"] = log["samples"][:3]
        log["results"]["total_samples"] = 3

    def another_part(log):
        part(log)
        log["eval"]["dataset"]["sample_ids"] = [1, 2, 4]

    assert read(part).record.planned == 3
    assert read(part).record.tasks_digest != read(another_part).record.tasks_digest


@pytest.mark.parametrize("edit", [{"invalidated": True}, {"log_updates": [{"edits": []}]}])
def test_i5_a_log_edited_or_invalidated_after_the_run_is_refused(read, edit):
    assert read(lambda log: log.update(edit)).problem.code == "inconsistent"


def test_i6_epochs_are_averaged_before_anything_is_paired(read):
    def twice(log):
        again = [sample | {"epoch": 2} for sample in json.loads(json.dumps(log["samples"]))]
        for sample in again[:10]:
            sample["scores"]["includes"]["value"] = 1
        log["samples"] += again

    record = read(twice).record
    first = [record.answers[str(identifier)].score for identifier in range(1, 11)]
    assert record.attempted == 40
    assert first == [0.5, 0.5, 1.0, 0.5, 1.0, 1.0, 0.5, 1.0, 1.0, 0.5]


def test_i6_one_sample_twice_in_an_epoch_is_refused(read):
    assert read(lambda log: log["samples"].append(log["samples"][0])).problem.code == "counters_disagree"


def test_i6_an_epoch_that_is_missing_is_truncated(read):
    problem = read(lambda log: log["results"].update(total_samples=80)).problem
    assert str(problem) == "truncated: 40 of 80 samples are in the log"


def test_i7_a_dirty_working_tree_is_told(read):
    assert read(lambda log: log["eval"].update(revision={"dirty": True})).record.notes == ("dirty_revision",)


@pytest.mark.parametrize(
    ("value", "score"), [("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), (0.25, 0.25), (1, 1.0), (True, 1.0)]
)
def test_grades_become_shares(read, value, score):
    answer = read(lambda log: log["samples"][0]["scores"]["includes"].update(value=value)).record.answers["1"]
    assert (answer.score, answer.ok, answer.empty) == (score, True, value == "N")


@pytest.mark.parametrize("value", ["D", 7, -0.1, [1], {"a": 1}, None])
def test_other_grades_are_refused(read, value):
    problem = read(lambda log: log["samples"][0]["scores"]["includes"].update(value=value)).problem
    assert problem.detail.startswith("sample 1: score ")


@pytest.mark.parametrize("edit", [{"scores": None}, {"error": {"message": "timed out"}}])
def test_a_sample_without_a_score_or_with_an_error_failed(read, edit):
    answer = read(lambda log: log["samples"][2].update(edit)).record.answers["3"]
    assert (answer.score, answer.ok) == (0.0, False)


def test_a_run_that_failed_throughout_has_no_answer_that_counts(read):
    def failed(log):
        for sample in log["samples"]:
            sample.update(error={"message": "connection refused"}, output={"choices": []})

    answers = read(failed).record.answers.values()
    assert {(answer.score, answer.ok, answer.empty) for answer in answers} == {(0.0, False, True)}


def test_of_several_scorers_one_must_be_selected(read):
    def another(log):
        log["results"]["scores"].append(log["results"]["scores"][0] | {"name": "judge"})

    assert read(another).problem.code == "ambiguous_run"
    assert read(another, select={"scorer": "includes"}).record.metric == "includes"


def test_a_log_without_samples_is_a_summary(read):
    record = read(lambda log: log.pop("samples")).record
    assert (record.answers, record.summary.value, record.summary.n) == ({}, 0.475, 40)
    assert record.summary.stderr == pytest.approx(0.079964, abs=1e-6)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda log: log.update(version=3), "version_unknown"),
        (lambda log: log["eval"]["packages"].update(inspect_ai="0.3.42"), "binding_conflict"),
        (lambda log: log["eval"].pop("task"), "bad_value"),
        (lambda log: log.pop("eval"), "schema_unknown"),
        (lambda log: log["samples"].append(7), "bad_value"),
        (lambda log: log["samples"][0].pop("epoch"), "bad_value"),
        (lambda log: log["results"]["scores"][0].update(scored_samples=-40), "bad_value"),
        (lambda log: log["results"]["scores"][0].update(scored_samples=0.5), "bad_value"),
    ],
)
def test_a_wrong_log_is_refused(read, edit, code):
    assert read(edit).problem.code == code


def test_a_log_is_no_evidence_of_another_kind(read):
    assert read(kind="cost").problem.code == "tool_unknown"


def test_an_archive_that_was_cut_off_is_refused(loaded, samples):
    raw = (samples / "inspect-ai" / "cand.eval").read_bytes()
    assert loaded(TOOL, VERSION, {"primary": raw[:-30]}).problem.code == "not_json"
