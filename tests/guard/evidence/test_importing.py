"""An envelope round a tool's file: nothing guessed, nothing copied, nothing the guard would refuse."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.evidence import importing, record_lines
from pulumi_infercrane.guard.evidence.importing import ImportRefused, Said, import_file
from pulumi_infercrane.guard.evidence.reading.stated import Stated


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing.time, "sleep", lambda seconds: None)


@pytest.fixture
def place(tmp_path: Path, samples: Path) -> Path:
    """A folder with the files of a quality run as lm-eval left them."""
    for name in ("cand_results.json", "cand_samples_gen.jsonl"):
        shutil.copy(samples / "lm-eval" / name, tmp_path)
    return tmp_path


@pytest.fixture
def files(place: Path) -> dict[str, Path]:
    return {"primary": place / "cand_results.json", "samples": place / "cand_samples_gen.jsonl"}


@pytest.fixture
def said(subject_of: Any) -> Said:
    subject = {key: value for key, value in subject_of("r2").items() if key != "revision_digest"}
    return Said("quality", "candidate", subject, {"id": "gen"}, select={"task": "guard_gen"})


def test_what_was_imported_is_evidence(place, files, said):
    imported = import_file(files, place, said)
    (item,) = load_evidence(place).items
    assert item.problem is None
    assert item.envelope.evidence_id == imported.envelope["evidence_id"]
    assert item.record == imported.record
    assert imported.path.name == "quality-candidate-cand_results-guard_gen.evidence.json"


def test_the_file_says_version_window_and_how_it_is_bound(place, files, said):
    envelope = import_file(files, place, said).envelope
    assert envelope["files"][0]["tool_version"] == "0.4.13"
    assert envelope["window"] == {"started_at": "2026-11-30T04:00:19Z", "ended_at": "2026-11-30T04:00:37Z"}
    assert envelope["binding"] == "declared_by_importer"
    assert [file["part"] for file in envelope["files"]] == ["primary", "samples"]


def test_the_tool_is_found_when_only_one_reader_takes_the_file(place, files, said):
    imported = import_file(files, place, said)
    assert (imported.tool, imported.guessed) == ("lm-eval", True)
    shutil.rmtree(place, ignore_errors=True)


def test_a_tool_that_was_named_is_not_guessed(place, files, said):
    assert import_file(files, place, replace(said, tool="lm-eval")).guessed is False


def test_a_file_that_no_reader_takes_says_what_to_do(place, said):
    (place / "x.json").write_text("{}")
    with pytest.raises(ImportRefused, match="no reader knows such a file: name its --tool to see why, one of aiperf"):
        import_file({"primary": place / "x.json"}, place, said)


def test_the_one_reader_that_knows_such_files_says_why_it_takes_none(place, files, said):
    with pytest.raises(ImportRefused, match=r"read as a file of lm-eval .* ambiguous_run: 2 tasks .* select\.task"):
        import_file(files, place, replace(said, select={}))


def test_several_results_of_vllm_in_one_file_are_told_as_such(place, samples, said):
    file = Path(shutil.copy(samples / "vllm-bench" / "append_result_not_json.json", place))
    with pytest.raises(
        ImportRefused,
        match=r"^append_result_not_json\.json: read as a file of vllm-bench .* split it, one file for every",
    ):
        import_file({"primary": file}, place, replace(said, kind="benchmark", select={}))


def test_with_a_tool_the_reason_is_told(place, files, said):
    with pytest.raises(ImportRefused, match="the guard would refuse it: ambiguous_run: 2 tasks in one file"):
        import_file(files, place, replace(said, tool="lm-eval", select={}))


def test_two_readers_that_take_it_are_named(place, files, said, monkeypatch):
    monkeypatch.setattr(importing, "known_tools", lambda: ("lm-eval", "lm_eval"))
    with pytest.raises(
        ImportRefused, match="readers of lm-eval and lm_eval take the file: say which it is with --tool"
    ):
        import_file(files, place, said)


def test_an_envelope_is_never_overwritten(place, files, said):
    before = import_file(files, place, said).path.read_bytes()
    with pytest.raises(ImportRefused, match=r"exists already; an envelope is never overwritten"):
        import_file(files, place, said)
    assert importing.Path(place / "quality-candidate-cand_results-guard_gen.evidence.json").read_bytes() == before


def test_a_file_that_is_still_being_written_is_refused(place, files, said, monkeypatch):
    def goes_on(seconds: float) -> None:
        with files["samples"].open("a") as file:
            file.write("{}\n")

    monkeypatch.setattr(importing.time, "sleep", goes_on)
    with pytest.raises(ImportRefused, match="still changing: wait until the tool has ended"):
        import_file(files, place, said)
    assert list(place.glob("*.evidence.json")) == []


def test_a_file_that_changes_while_it_is_read_is_refused(place, files, said, monkeypatch):
    read = importing._taken

    def meanwhile(*arguments: Any) -> Any:
        record = read(*arguments)
        files["primary"].write_bytes(files["primary"].read_bytes() + b" ")
        return record

    monkeypatch.setattr(importing, "_taken", meanwhile)
    with pytest.raises(ImportRefused, match="changed while it was read"):
        import_file(files, place, replace(said, tool="lm-eval"))


def test_a_file_elsewhere_is_refused(place, files, said, tmp_path_factory):
    with pytest.raises(ImportRefused, match="an envelope vouches for files beside it, move it there"):
        import_file(files, tmp_path_factory.mktemp("elsewhere"), said)


def test_a_link_is_no_file(place, files, said):
    (place / "link.json").symlink_to(files["primary"])
    with pytest.raises(ImportRefused, match="not a regular file"):
        import_file({"primary": place / "link.json"}, place, said)


def test_a_window_that_contradicts_the_file_is_refused(place, files, said):
    window = {"started_at": "2026-11-30T05:00:19Z", "ended_at": "2026-11-30T05:00:32Z"}
    with pytest.raises(
        ImportRefused, match="started_at: 2026-11-30T05:00:19Z was said, the file says 2026-11-30T04:00:19Z"
    ):
        import_file(files, place, replace(said, tool="lm-eval", **window))


def without_times(files: dict[str, Path]) -> None:
    document = json.loads(files["primary"].read_bytes())
    for key in ("date", "lm_eval_version"):
        del document[key]
    files["primary"].write_text(json.dumps(document))


def test_what_nobody_says_is_asked_for(place, files, said):
    without_times(files)
    silent = replace(said, tool="lm-eval")
    with pytest.raises(ImportRefused, match="give --tool-version"):
        import_file(files, place, silent)
    with pytest.raises(ImportRefused, match="give --window START/END"):
        import_file(files, place, replace(silent, tool_version="0.4.2"))
    window = {"started_at": "2026-11-30T04:00:19Z", "ended_at": "2026-11-30T04:00:32Z"}
    import_file(files, place, replace(silent, tool_version="0.4.2", **window))


def test_a_time_without_a_zone_is_refused(place, files, said):
    without_times(files)
    local = {"started_at": "2026-11-30T04:00:19", "ended_at": "2026-11-30T04:00:32"}
    with pytest.raises(ImportRefused, match="is not a UTC time"):
        import_file(files, place, replace(said, tool="lm-eval", tool_version="0.4.2", **local))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tool": "wrk"}, "no reader for 'wrk', only for "),
        ({"tool": "lm-eval", "kind": "cost"}, "tool_unknown: lm-eval measures quality"),
        ({"tool": "lm-eval", "scenario": {}}, "bad_value: scenario.id: is missing"),
        (
            {"tool": "lm-eval", "subject": {"provider": "aws"}},
            "the subject lacks model, tokenizer_digest, chat_template_sha",
        ),
        ({"tool": "lm-eval", "more": {"window": {}}}, "window has an option of its own"),
        ({"tool": "lm-eval", "more": {"slow": {}}}, "schema_unknown: slow: unknown field"),
    ],
)
def test_a_wrong_description_is_refused(place, files, said, change, message):
    with pytest.raises(ImportRefused, match=message):
        import_file(files, place, replace(said, **change))


def test_a_digest_of_another_subject_is_refused(place, files, said, subject_of):
    wrong = {**said.subject, "revision_digest": subject_of("r1")["revision_digest"]}
    with pytest.raises(ImportRefused, match="the subject's revision_digest is not that of the subject"):
        import_file(files, place, replace(said, tool="lm-eval", subject=wrong))


def test_further_fields_and_a_group_are_written(place, files, said):
    more = {"slo": {"ttft_s": 0.5}}
    run = {"group": "night", "ordinal": 2, "of": 3}
    envelope = import_file(files, place, replace(said, more=more, run=run, planned=60)).envelope
    assert (envelope["slo"], envelope["run"], envelope["planned"]) == (more["slo"], run, {"requests": 60})


def test_a_file_of_the_go_project_says_where_it_comes_from(place, samples, said):
    shutil.copy(samples / "infercrane-go" / "evaluator-result.json", place)
    window = {"started_at": "2026-11-30T04:02:00Z", "ended_at": "2026-11-30T04:02:00Z"}
    imported = import_file({"primary": place / "evaluator-result.json"}, place, replace(said, select={}, **window))
    assert (imported.tool, imported.envelope["source"]) == ("infercrane-go", "infercrane-go/evaluator-result")
    assert imported.envelope["files"][0]["tool_version"] == "1.4.0"


def test_our_own_files_can_be_imported_too(folder, said):
    path = folder.quality("candidate")
    path.unlink()
    raw = {"primary": folder.root / "quality-candidate.quality.jsonl"}
    imported = import_file(raw, folder.root, replace(said, select={}))
    assert (imported.tool, imported.envelope["planned"]) == ("infercrane", {"requests": 60})


def test_a_record_is_told_in_lines(place, files, said):
    lines = list(record_lines.lines(import_file(files, place, said).record))
    assert "metric: exact_match" in lines
    assert "answers: 60 kept one by one" in lines
    assert "summary: value 0.466667, stderr 0.0649496, n 60" in lines
    assert lines[-2:] == ["mean score: 0.4667", "failed or empty: 17"]


def test_words_of_a_file_do_not_steer_the_terminal(folder):
    folder.benchmark("candidate", failed=1, lines=lambda lines: lines[-1].update(outcome="\x1b[2J"))
    (item,) = load_evidence(folder.root).items
    assert "errors: '\\x1b[2J' 1" in list(record_lines.lines(item.record))


def test_a_load_run_is_told_in_lines(folder):
    folder.benchmark("candidate", failed=1)
    (item,) = load_evidence(folder.root).items
    lines = list(record_lines.lines(item.record))
    assert "attempted: 150" in lines
    assert "errors: http_error 1" in lines
    assert "requests: 150 kept one by one" in lines


@pytest.fixture
def load_run(tmp_path: Path, samples: Path) -> dict[str, Path]:
    """A file of vllm-bench, which says neither its version nor its time zone: 6.1 s from 04:13:44 on."""
    shutil.copy(samples / "vllm-bench" / "ok.json", tmp_path)
    return {"primary": tmp_path / "ok.json"}


def of_load(said: Said, end: str = "2026-11-30T04:13:51Z", **changes: Any) -> Said:
    window = {"started_at": "2026-11-30T04:13:44Z", "ended_at": end}
    return replace(said, **{"kind": "benchmark", "tool_version": "0.33.0", "select": {}, **window, **changes})


def test_a_tool_is_known_by_its_file_alone(load_run, tmp_path, said):
    assert import_file(load_run, tmp_path, of_load(said)).tool == "vllm-bench"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "bench"}, r"--kind bench: known are benchmark, "),
        ({"kind": "quality"}, "read as a file of vllm-bench .* gives evidence of kind benchmark, not 'quality'"),
        ({"subject": {}}, "the subject lacks model, tokenizer_digest, chat_template_sha, runtime"),
        ({"subject_digest": "sha256:" + "0" * 64}, "the subject's revision_digest is not that of the subject"),
        (
            {"tool_version": "", "started_at": "", "ended_at": ""},
            "vllm-bench .* give --tool-version and --window START",
        ),
        ({"tool_version": ""}, "give --tool-version$"),
        ({"started_at": "2026-11-30T04:13:44"}, "--window: .* is not a UTC time"),
        ({"end": "2026-11-30T04:13:43Z"}, "--window: it ends at 2026-11-30T04:13:43Z, before it starts at"),
        ({"end": "2026-11-30T04:13:47Z"}, r"the window lasts 3 s, the file is about 6\.102 s: give the whole --window"),
        ({"end": "2026-11-30T04:13:47Z", "tool": "vllm-bench"}, "the window lasts 3 s"),
        ({"run": {"group": "a", "ordinal": 5, "of": 3}}, "run group: there is no run 5 of 3"),
    ],
)
def test_without_a_tool_the_true_reason_is_told(load_run, tmp_path, said, change, message):
    if "subject_digest" in change:
        change = {"subject": {**said.subject, "revision_digest": change["subject_digest"]}}
    with pytest.raises(ImportRefused, match=message):
        import_file(load_run, tmp_path, of_load(said, **change))
    assert list(tmp_path.glob("*.evidence.json")) == []


def test_a_window_in_whole_seconds_may_be_a_little_short(load_run, tmp_path, said):
    assert import_file(load_run, tmp_path, of_load(said, end="2026-11-30T04:13:50Z")).path.is_file()


def test_a_file_that_is_not_there_is_told_as_that(tmp_path, said):
    with pytest.raises(ImportRefused, match=r"nope\.json: no such file"):
        import_file({"primary": tmp_path / "nope.json"}, tmp_path, said)


def test_of_two_readers_that_know_a_file_neither_may_take_it(tmp_path, samples, said):
    shutil.copy(samples / "opencost" / "gpu_allocation.json", tmp_path)
    with pytest.raises(ImportRefused, match="readers of opencost and prometheus know such a file, and do not take it"):
        import_file({"primary": tmp_path / "gpu_allocation.json"}, tmp_path, of_load(said, kind="cost"))


@pytest.mark.parametrize("half", ["started_at", "ended_at"])
def test_half_a_window_in_a_file_is_none(place, files, said, monkeypatch, half):
    stated = Stated(tool_version="0.4.13", **{half: "2026-11-30T04:00:19Z"})
    monkeypatch.setattr(importing, "stated_in", lambda reader, parts: stated)
    with pytest.raises(ImportRefused, match=r"a file of lm-eval .* give --window START/END"):
        import_file(files, place, said)
