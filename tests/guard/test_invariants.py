"""What must hold for any evidence: properties of the whole decision, and error rates by seeded simulation."""

import json
import random
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard import EvidenceSet, load_evidence
from pulumi_infercrane.guard.canonical import rounded
from pulumi_infercrane.guard.judging.rule import at_most
from pulumi_infercrane.guard.statistics import (
    paired_difference,
    paired_ratio,
    proportion,
    quantile_ratio,
    repeated_ratio,
)

EXAMPLES = settings(max_examples=15)
BETTER = {"reject": 0, "insufficient_evidence": 0, "promote": 1}
N = 40
MEMORY = Path("/dev/shm")  # thousands of small files: a disk would be what is measured
KINDS = ("benchmark", "cost", "quality", "reliability", "replay")

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark, cost, quality, reliability, replay]
rules:
  - {id: benchmark.error_fraction, limit: 0.1}
  - {id: benchmark.error_fraction_difference, margin: 0.1}
  - {id: benchmark.ttft_p50, margin: 0.5, min_pass: 40, min_compute: 20}
  - {id: quality.basics, margin: 0.1, min_pass: 40}
  - {id: quality.basics.invalid, margin: 0.1, min_pass: 40}
  - {id: replay.new_error_fraction, margin: 0.1}
  - {id: replay.structured, margin: 0.3, min_pass: 10, min_compute: 5}
  - {id: replay.tool_calls, margin: 0.3, min_pass: 8, min_compute: 5}
  - {id: replay.refused, margin: 0.1, min_pass: 40}
  - {id: replay.truncated, margin: 0.1, min_pass: 40}
  - {id: replay.output_length, min_pass: 30}
  - {id: replay.e2e_p50, min_pass: 30}
  - {id: replay.similarity, min_pass: 40}
  - {id: reliability.error_fraction, limit: 0.1}
  - {id: reliability.timeouts, limit: 0.1}
  - {id: reliability.crashes}
  - {id: reliability.cold_start_p95, limit: 30}
  - {id: cost.per_million_output_tokens}
  - {id: cost.per_good_request}
  - {id: cost.max_per_good_request, limit: 0.002}
"""


@pytest.fixture(scope="session")
def scratch(new_folder):
    """A fresh folder for each example."""

    @contextmanager
    def make(**names):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as root:
            folder = new_folder(**names)
            folder.root, folder.policy = Path(root), POLICY
            yield folder

    return make


@dataclass(frozen=True)
class Situation:
    """How the two sides differ. Shares are of `N` items."""

    slower: float
    longer: float
    dearer: float
    failures: int
    lost: int
    gained: int
    crashes: int


situations = st.builds(
    Situation,
    slower=st.sampled_from([0.7, 1.0, 1.0, 1.3, 2.0]),
    longer=st.sampled_from([0.6, 1.0, 1.0, 1.3]),
    dearer=st.sampled_from([0.9, 1.0, 1.0, 1.07, 1.5]),
    failures=st.sampled_from([0, 0, 0, 1, 9]),
    lost=st.integers(0, 3),
    gained=st.integers(0, 3),
    crashes=st.sampled_from([0, 0, 0, 1]),
)
GOOD = Situation(slower=1.0, longer=1.0, dearer=1.0, failures=0, lost=0, gained=0, crashes=0)


def untouched(kind, lines):
    """What `fill` does to the candidate's lines unless an example says otherwise."""


def fill(folder, situation, touch=untouched):
    """All five kinds; `touch` may change the candidate's lines of each before they are written."""
    for role in ("baseline", "candidate"):
        write(folder, role, situation, touch if role == "candidate" else untouched)


def write(folder, role, situation, touch=untouched, kinds=KINDS):
    candidate = role == "candidate"
    failures = situation.failures if candidate else 0

    def touching(kind):
        def change(lines):
            if candidate:
                shape(kind, lines, situation)
            touch(kind, lines)

        return {"lines": change}

    if "benchmark" in kinds:
        ttft = folder.seconds(N, seed=len(role), scale=situation.slower if candidate else 1.0)
        folder.benchmark(role, ttft, failed=failures, **touching("benchmark"))
    if "quality" in kinds:
        folder.quality(role, scores(role, situation), **touching("quality"))
    if "replay" in kinds:
        folder.replay(role, N, header={"similarity": "exact"} if candidate else {}, **touching("replay"))
    if "cost" in kinds:
        folder.cost(role, 2.0 * situation.dearer if candidate else 2.0, N, **touching("cost"))
    if "reliability" in kinds and candidate:
        folder.reliability(role, N, failures, header={"crashes": situation.crashes}, **touching("reliability"))


def scores(role, situation):
    if role == "candidate":
        return [1.0] * (N - situation.lost) + [0.0] * situation.lost
    return [0.0] * situation.gained + [1.0] * (N - situation.gained)


def shape(kind, lines, situation):
    """What makes the candidate of a situation another one than the baseline."""
    for index, line in enumerate(lines):
        if kind == "replay":
            line["similarity"] = 1.0 if index >= situation.lost else 0.0
            line["out_tokens"] = round(line["out_tokens"] * situation.longer)
            line["e2e_s"] = line["e2e_s"] * situation.slower
            if index < situation.lost:
                line["refused"] = True
        if kind in ("replay", "cost") and index < situation.failures:
            line["outcome"] = "http_error"


def outcomes(decision):
    return {rule["rule"]: rule["outcome"] for rule in decision.record["rules"]}


def test_every_rule_can_pass_here(scratch):
    with scratch() as folder:
        fill(folder, GOOD)
        assert set(outcomes(folder.decide()).values()) == {"pass"}


@EXAMPLES
@given(situation=situations, gone=st.sets(st.integers(0, 8), min_size=1))
def test_evidence_an_earlier_decision_used_does_not_just_disappear(scratch, situation, gone):
    with scratch() as folder:
        fill(folder, situation)
        whole = load_evidence(folder.root)
        before = folder.decide(evidence=whole)
        part = EvidenceSet(tuple(item for index, item in enumerate(whole.items) if index not in gone))
        after = folder.decide(evidence=part, history=[before.record])
    assert after.verdict != "promote"
    kinds = {whole.items[index].envelope.kind for index in gone}
    assert {rule.partition(".")[0] for rule, one in outcomes(after).items() if one == "unknown"} >= kinds


@EXAMPLES
@given(situation=situations, kind=st.sampled_from(KINDS), role=st.sampled_from(["candidate", "baseline", ""]))
def test_without_a_kind_or_a_side_there_is_no_promotion_that_was_none_before(scratch, situation, kind, role):
    def is_gone(envelope):
        return envelope.kind == kind if not role else envelope.role == role

    with scratch() as folder:
        fill(folder, situation)
        whole = load_evidence(folder.root)
        part = EvidenceSet(tuple(item for item in whole.items if not is_gone(item.envelope)))
        before, after = folder.decide(evidence=whole), folder.decide(evidence=part)
    assert BETTER[after.verdict] <= BETTER[before.verdict]


@EXAMPLES
@given(situation=situations, gone=st.sets(st.integers(0, 8)))
def test_every_unknown_says_what_would_settle_it(scratch, situation, gone):
    with scratch() as folder:
        fill(folder, situation)
        whole = load_evidence(folder.root)
        part = EvidenceSet(tuple(item for index, item in enumerate(whole.items) if index not in gone))
        rules = folder.decide(evidence=part).record["rules"]
    assert [rule["rule"] for rule in rules if rule["outcome"] == "unknown" and not rule.get("needs")] == []


@EXAMPLES
@given(ordinal=st.integers(1, 3), kind=st.sampled_from(KINDS))
def test_without_one_member_of_a_group_nothing_of_the_kind_is_known(scratch, ordinal, kind):
    with scratch() as folder:
        fill(folder, GOOD)
        for number in range(1, 4):
            repeat(folder, kind, number)
        (folder.root / f"repeat-{ordinal}.evidence.json").unlink()
        (folder.root / f"{kind}-candidate.evidence.json").unlink()
        after = outcomes(folder.decide())
    assert {one for rule, one in after.items() if rule.startswith(kind)} == {"unknown"}


def repeat(folder, kind, number):
    """One of three candidate runs of a kind; no two are the same bytes."""

    def differ(lines):
        lines[0]["note"] = number

    run = {"group": "g", "ordinal": number, "of": 3}
    sizes = {"benchmark": {"ttft": folder.seconds(N)}, "quality": {"scores": [1.0] * N}}
    arguments = sizes.get(kind, {"n": N})
    getattr(folder, kind)(
        "candidate", name=f"repeat-{number}", lines=differ, change=lambda e: e.update(run=run), **arguments
    )


@EXAMPLES
@given(situation=situations, order=st.permutations(range(9)))
def test_order_never_matters(scratch, situation, order):
    with scratch() as folder:
        fill(folder, situation)
        items = load_evidence(folder.root).items
        shuffled = EvidenceSet(tuple(items[index] for index in order))
        assert folder.decide(evidence=shuffled).canonical == folder.decide().canonical


@EXAMPLES
@given(situation=situations, seed=st.integers(0, 1000))
def test_order_of_lines_and_keys_never_matters_to_an_outcome(scratch, situation, seed):
    def shuffled(kind, lines):
        random.Random(seed).shuffle(lines)
        for line in lines:
            items = list(line.items())
            random.Random(seed).shuffle(items)
            line.clear()
            line.update(items)

    with scratch() as folder:
        fill(folder, situation)
        before = folder.decide().record["rules"]
        write(folder, "candidate", situation, shuffled)
        after = folder.decide().record["rules"]
    assert [{**rule, "evidence": 0} for rule in after] == [{**rule, "evidence": 0} for rule in before]


FAILED = {"outcome": "idle_timeout", "score": 0}
WORSE = {
    "benchmark": [FAILED],
    "quality": [FAILED, {"score": 0, "text_sha256": "f" * 64}],
    "replay": [
        FAILED,
        {"structured": False, "tool_calls": "sha256:" + "0" * 64},
        {"refused": True, "finish_reason": "length"},
        {"similarity": 0.0, "e2e_s": 50.0},
    ],
    "reliability": [FAILED],
    "cost": [FAILED, {"good": False}],
}


@settings(EXAMPLES, max_examples=30)
@given(situation=situations, item=st.integers(0, N - 1), data=st.data())
def test_a_worse_answer_never_helps(scratch, situation, item, data):
    spoiled = data.draw(st.sampled_from(KINDS))
    worse = data.draw(st.sampled_from(WORSE[spoiled]))

    def spoil(kind, lines):
        if kind == spoiled:
            was = lines[item]
            lines[item] = was | {key: value for key, value in worse.items() if key in was}

    with scratch() as folder:
        fill(folder, situation)
        before = outcomes(folder.decide())
        write(folder, "candidate", situation, spoil, [spoiled])
        after = outcomes(folder.decide())
    assert [rule for rule, one in after.items() if one == "pass" and before[rule] != "pass"] == []


RELATIVE = (
    "benchmark.error_fraction_difference",
    "benchmark.ttft_p50",
    "quality.basics",
    "quality.basics.invalid",
    "replay.e2e_p50",
    "replay.refused",
    "replay.truncated",
    "cost.per_million_output_tokens",
    "cost.per_good_request",
)
"""Rules in which less of the same is better. New errors, other calls and other lengths can be worse both ways."""


@EXAMPLES
@given(situation=situations)
def test_two_sides_are_never_both_worse_than_the_other(scratch, situation):
    with scratch() as folder, scratch(candidate="r1", baseline="r2") as mirrored:
        fill(folder, replace(situation, failures=0))
        for path in folder.root.iterdir():
            kind = path.name.partition(".")[2].partition(".")[0]
            if path.suffix == ".jsonl" and kind != "reliability":
                turn(mirrored, path, kind)
        forth, back = outcomes(folder.decide()), outcomes(mirrored.decide())
    assert [rule for rule in RELATIVE if forth[rule] == back[rule] == "fail"] == []


def turn(mirrored, path, kind):
    """A side's file as the other side of the mirrored question: the revision stays, its role does not."""
    role = "baseline" if "candidate" in path.name else "candidate"
    scenario = json.loads(path.with_name(f"{path.name.partition('.')[0]}.evidence.json").read_text())["scenario"]
    mirrored.write_raw(kind, role, f"{kind}-{role}", path.read_bytes(), scenario, N)


@EXAMPLES
@given(
    st.lists(st.floats(0.01, 10), min_size=20, max_size=80),
    st.lists(st.floats(0.01, 10), min_size=20, max_size=80),
)
def test_two_quantiles_are_never_both_worse_than_the_other(one, other):
    forth, back = quantile_ratio(one, other, 0.5), quantile_ratio(other, one, 0.5)
    assert not (forth.lo > 1.0 and back.lo > 1.0)


@EXAMPLES
@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)), min_size=20, max_size=60))
def test_the_unit_of_a_figure_never_matters_to_a_ratio(pairs):
    def bounds(ratio):
        return [rounded(value) for value in (ratio.estimate, ratio.lo, ratio.hi)]

    sides, in_ms = list(zip(*pairs, strict=True)), [(1000 * one, 1000 * other) for one, other in pairs]
    scaled = list(zip(*in_ms, strict=True))
    assert bounds(quantile_ratio(*sides, 0.95)) == pytest.approx(bounds(quantile_ratio(*scaled, 0.95)), rel=1e-8)
    assert bounds(paired_ratio(pairs)) == pytest.approx(bounds(paired_ratio(in_ms)), rel=1e-8)
    assert bounds(repeated_ratio(*sides)) == pytest.approx(bounds(repeated_ratio(*scaled)), rel=1e-8)


@EXAMPLES
@given(situation=situations)
def test_a_promotion_names_exactly_what_it_promotes(scratch, situation):
    with scratch() as folder:
        fill(folder, situation)
        record = folder.decide().record
        steps = folder.decide(policy=folder.policy + "canary: {}\n").record
    assert (record["candidate"], record["expected_active"]) == (folder.candidate, folder.baseline)
    assert (record["action"] == "flip") is (record["verdict"] == "promote")
    assert (steps["action"] == "advance") is ("weights" in steps) is (record["verdict"] == "promote")


@settings(EXAMPLES, max_examples=30)
@given(data=st.data())
def test_damaged_bytes_never_raise_and_never_promote(scratch, data):
    with scratch() as folder:
        fill(folder, GOOD)
        files = sorted(folder.root.iterdir())
        file = data.draw(st.sampled_from(files))
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 5))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        changed = bytes(content) != file.read_bytes()
        semantics = changed and (file.suffix == ".jsonl" or _meaning(content) != _meaning(file.read_bytes()))
        file.write_bytes(content)
        decision = folder.decide()
    assert decision.verdict != "promote" or not semantics


@settings(EXAMPLES, max_examples=30)
@given(data=st.data())
def test_whatever_an_honest_looking_file_holds_a_decision_is_reached(scratch, data):
    """The same damage, then hashed and sealed anew: what reaches readers and rules, not the gate of integrity."""
    kind = data.draw(st.sampled_from(KINDS))
    with scratch() as folder:
        fill(folder, GOOD)
        path = folder.root / f"{kind}-candidate.{kind}.jsonl"
        content = bytearray(path.read_bytes())
        start = data.draw(st.integers(0, len(content) - 1))
        content[start : start + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=3))
        scenario = json.loads((folder.root / f"{kind}-candidate.evidence.json").read_text())["scenario"]
        folder.write_raw(kind, "candidate", f"{kind}-candidate", bytes(content), scenario, N)
        assert folder.decide().verdict in BETTER


def _meaning(content):
    try:
        return json.loads(bytes(content))
    except ValueError:
        return None


# --- error rates ------------------------------------------------------------------------------------------------

RUNS = 300


def test_equal_revisions_are_hardly_ever_rejected_for_their_latency():
    source = random.Random(20261130)
    runs, rejected = 120, 0
    for _ in range(runs):
        sides = [[source.lognormvariate(0, 0.5) for _ in range(200)] for _ in range(2)]
        rejected += any(quantile_ratio(*sides, q).lo > 1 + margin for q, margin in ((0.5, 0.10), (0.95, 0.15)))
    assert rejected / runs <= 0.01


def test_equal_revisions_are_hardly_ever_rejected_for_their_errors():
    source = random.Random(20261130)
    fails = sum(proportion(sum(source.random() < 0.003 for _ in range(300)), 300).lo > 0.01 for _ in range(RUNS))
    assert fails / RUNS <= 0.01


def test_equal_revisions_are_hardly_ever_rejected_for_their_quality():
    source = random.Random(20261130)
    draw = {-1.0: 0.01, 1.0: 0.01, 0.0: 0.98}
    fails = sum(
        paired_difference(source.choices(list(draw), list(draw.values()), k=300)).hi < -0.02 for _ in range(RUNS)
    )
    assert fails / RUNS <= 0.01


def test_a_loss_at_the_margin_is_hardly_ever_promoted():
    source = random.Random(20261130)
    passes = sum(
        paired_difference(source.choices([-1.0, 1.0, 0.0], [0.03, 0.01, 0.96], k=300)).lo >= -0.02 for _ in range(RUNS)
    )
    assert passes / RUNS <= 0.06 + 0.03  # three standard errors of 300 runs


def test_a_rise_of_thirty_percent_is_not_promoted():
    source = random.Random(20261130)
    passes = 0
    for _ in range(30):
        baseline = [source.lognormvariate(0, 0.5) for _ in range(2000)]
        candidate = [1.3 * source.lognormvariate(0, 0.5) for _ in range(2000)]
        passes += quantile_ratio(baseline, candidate, 0.95).hi <= 1.15
    assert passes == 0


def test_an_error_share_at_the_limit_is_hardly_ever_promoted():
    source = random.Random(20261130)
    passes = sum(
        at_most(proportion(sum(source.random() < 0.05 for _ in range(150)), 150), 0.05) == "pass" for _ in range(RUNS)
    )
    assert passes / RUNS <= 0.05 + 0.03
