"""A file that was written again is no second measurement, whatever its bytes; what may well be equal is no copy."""

import json

import pytest

from pulumi_infercrane.guard.statistics import quantile
from tests.guard.asking import ERRORS_ONLY, decided, good
from tests.guard.conftest import Folder

COPIED = "duplicate: the same measurement in another file; counted once"
SHARED = "binding_conflict: the same measurement is offered for two revisions, in two files"


def reasons(decision):
    return sorted(reason for entry in decision.record["evidence"] for reason in entry["reasons"])


def detailed(summary_run, seed=1):
    """A result of vllm-bench with every request, and what they say in sum."""
    ttfts = Folder.seconds(400, seed)
    run = summary_run(n=400) | {"input_lens": [30] * 400, "output_lens": [48] * 400}
    run |= {"ttfts": ttfts, "latencies": [ttft + 0.47 for ttft in ttfts]}
    said = {f"p{q}_ttft_ms": 1e3 * quantile(sorted(ttfts), q / 100) for q in (50, 90, 95, 99)}
    said["mean_ttft_ms"] = 1e3 * sum(ttfts) / len(ttfts)
    return {key: value for key, value in run.items() if not key.endswith("_ms")} | said


def indented(run):
    return json.dumps(run, indent=2)


def keys_reordered(run):
    return json.dumps(dict(sorted(run.items(), reverse=True)))


def relabelled(run):
    return json.dumps(run | {"label": "second run", "date": "20261130-040130"})


def requests_reordered(run):
    per_request = ("ttfts", "latencies", "input_lens", "output_lens")
    return json.dumps(run | {name: run[name][::-1] for name in per_request})


def in_sum_only(run):
    return json.dumps({key: value for key, value in run.items() if not isinstance(value, list)})


REWRITTEN = [indented, keys_reordered, relabelled, requests_reordered, in_sum_only]


def vllm(folder, role, text, name):
    folder.measured(role, "vllm-bench", "0.33.0", {"primary": text.encode()}, name=name, planned=400)


@pytest.mark.parametrize("rewrite", REWRITTEN)
def test_a_result_that_was_written_again_counts_once(folder, summary_run, rewrite):
    run = detailed(summary_run)
    vllm(folder, "candidate", json.dumps(run), "run")
    vllm(folder, "candidate", rewrite(run), "again")
    decision = folder.decide(policy=ERRORS_ONLY + "min_duration_s: 0\n")
    assert (decision.record["rules"][0]["n"], reasons(decision)) == ([400], [COPIED])


@pytest.mark.parametrize("rewrite", REWRITTEN)
def test_a_result_that_was_written_again_is_no_evidence_for_another_revision(folder, summary_run, rewrite):
    run = detailed(summary_run)
    vllm(folder, "candidate", json.dumps(run), "run")
    vllm(folder, "baseline", rewrite(run), "again")
    decision = folder.decide(policy=ERRORS_ONLY + "min_duration_s: 0\n")
    assert (decision.verdict, reasons(decision)) == ("insufficient_evidence", [SHARED, SHARED])


def test_a_result_that_was_written_again_in_another_unit_counts_once(folder):
    """A time that was multiplied and divided is not always the same number again."""

    def there_and_back(lines):
        for line in lines:
            line.update({name: line[name] / 1e3 * 1e3 for name in ("ttft_s", "e2e_s")})

    times = folder.seconds(300)
    assert any(time / 1e3 * 1e3 != time for time in times)
    good(folder)
    raw = (folder.root / "benchmark-candidate.benchmark.jsonl").read_text()
    header, *lines = (json.loads(line) for line in raw.splitlines())
    there_and_back(lines)
    again = "\n".join(json.dumps(line) for line in [header, *lines])
    folder.write_raw("benchmark", "candidate", "again", again.encode(), planned=300)
    assert (decided(folder).record["rules"][0]["n"], reasons(decided(folder))) == ([300], [COPIED])


def test_two_runs_are_two_runs(folder, summary_run):
    for seed in (1, 2):
        vllm(folder, "candidate", json.dumps(detailed(summary_run, seed)), f"run-{seed}")
    assert folder.decide(policy=ERRORS_ONLY + "min_duration_s: 0\n").record["rules"][0]["n"] == [800]


def test_a_summary_that_was_written_again_counts_once(folder, summary_run):
    for rewrite in (json.dumps, indented):
        vllm(folder, "candidate", rewrite(summary_run(n=400)), rewrite.__name__)
    assert reasons(folder.decide(policy=ERRORS_ONLY + "min_duration_s: 0\n")) == [COPIED]


def test_of_two_copies_for_two_revisions_one_that_does_not_count_still_spoils_the_other(folder, new_folder):
    good(folder)
    other = new_folder(candidate="r9")
    other.root = folder.root
    header, *lines = (folder.root / "benchmark-candidate.benchmark.jsonl").read_text().splitlines()
    changed = json.loads(header) | {"revision_digest": other.candidate}
    raw = "\n".join([json.dumps(changed), *lines]).encode()
    other.write_raw("benchmark", "candidate", "other", raw, planned=300)
    assert reasons(decided(folder))[0] == SHARED


def soak(folder, name, spread, **changes):
    def timed(lines):
        for index, line in enumerate(lines):
            line.update(e2e_s=0.5 + spread * index, **changes)

    folder.reliability(name=name, lines=timed)


RELIABILITY = "schema: infercrane.policy/v1\nrequired_kinds: [reliability]\nrules: [{id: reliability.error_fraction}]\n"


def test_a_soak_that_was_written_again_counts_once(folder):
    soak(folder, "soak", 0.001)
    raw = (folder.root / "soak.reliability.jsonl").read_bytes()
    folder.write_raw("reliability", "candidate", "again", raw.replace(b'": ', b'":'), planned=600)
    assert folder.decide(policy=RELIABILITY).record["rules"][0]["n"] == [600]


def test_soaks_without_a_failure_and_without_times_are_not_taken_for_copies(folder):
    """All that is the same about them is that nothing happened."""
    soak(folder, "one", 0.0, finish_reason="stop")
    soak(folder, "two", 0.0, finish_reason="length")
    assert folder.decide(policy=RELIABILITY).record["rules"][0]["n"] == [1200]


def test_equal_answers_and_equal_costs_are_no_copies(folder):
    """A greedy model answers alike in both revisions, and the same load at the same price costs the same."""
    for role in ("candidate", "baseline"):
        folder.quality(role)
        folder.cost(role)
    policy = "schema: infercrane.policy/v1\nrequired_kinds: [quality, cost]\nrules:\n"
    rules = "  - {id: quality.basics, margin: 0.05, min_pass: 60}\n  - {id: cost.per_million_output_tokens}\n"
    assert folder.decide(policy=policy + rules).verdict == "promote"


def test_a_replay_of_one_revision_is_none_of_the_other(folder):
    folder.replay("candidate")
    header, *lines = (folder.root / "replay-candidate.replay.jsonl").read_text().splitlines()
    header = json.dumps(json.loads(header) | {"revision_digest": folder.baseline})
    folder.write_raw("replay", "baseline", "again", "\n".join([header, *reversed(lines)]).encode(), planned=300)
    policy = "schema: infercrane.policy/v1\nrequired_kinds: [replay]\nrules: [{id: replay.new_error_fraction}]\n"
    decision = folder.decide(policy=policy)
    assert (decision.verdict, reasons(decision)) == ("insufficient_evidence", [SHARED, SHARED])


def without_failures(folder, name):
    """The run of that name, written again with only its good requests: its times are the same."""
    header, *lines = (folder.root / f"{name}.benchmark.jsonl").read_text().splitlines()
    complete = [line for line in lines if json.loads(line)["outcome"] == "complete"]
    head = json.dumps(json.loads(header) | {"planned": len(complete)})
    return "\n".join([head, *complete]).encode(), len(complete)


@pytest.mark.parametrize("name", ["again", "once more", "and again", "edited"])
def test_a_copy_does_not_take_the_place_of_what_counted_before(folder, name):
    """Whichever of the two comes first by its id."""
    folder.benchmark("candidate", failed=60, name="run")
    failed = decided(folder)
    raw, planned = without_failures(folder, "run")
    folder.write_raw("benchmark", "candidate", name, raw, planned=planned)
    decision = decided(folder, history=[failed.record])
    assert (decision.verdict, reasons(decision)) == ("reject", [COPIED])


def test_a_bad_run_is_not_made_to_not_count_by_offering_it_for_another_revision(folder, new_folder):
    """Good runs beside it are not judged as if it had never been."""
    good(folder, name="good")
    folder.benchmark("candidate", failed=60, name="bad")
    failed = decided(folder)
    other = new_folder(candidate="r9")
    other.root = folder.root
    other.write_raw("benchmark", "candidate", "copy", (folder.root / "bad.benchmark.jsonl").read_bytes())
    decision = decided(folder, history=[failed.record])
    assert (failed.verdict, decision.verdict) == ("reject", "insufficient_evidence")
    assert decision.record["first_reason"] == "benchmark: binding_conflict"


TWO_KINDS = """\
schema: infercrane.policy/v1
required_kinds: [benchmark, reliability]
min_duration_s: 0
min_soak_s: 1
rules: [{id: benchmark.error_fraction, limit: 0.5}, {id: reliability.error_fraction, limit: 0.5}]
"""


def test_one_file_may_be_the_load_run_and_the_soak(folder, samples):
    raw = (samples / "k6" / "k6_1.1.0_handleSummary.json").read_bytes()
    for kind in ("benchmark", "reliability"):
        folder.measured("candidate", "k6", "1.1.0", {"primary": raw}, kind=kind, name=kind)
    decision = folder.decide(policy=TWO_KINDS)
    assert (decision.verdict, reasons(decision)) == ("promote", [])
