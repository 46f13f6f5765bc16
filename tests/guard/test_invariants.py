"""What must hold for any evidence: properties of the whole decision, and error rates by seeded simulation."""

import json
import random
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard import EvidenceSet, load_evidence
from pulumi_infercrane.guard.rule import at_most
from pulumi_infercrane.guard.statistics import paired_difference, proportion, quantile_ratio

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=25)
BETTER = {"reject": 0, "insufficient_evidence": 0, "promote": 1}

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark, quality]
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: benchmark.ttft_p50, margin: 0.5, min_pass: 60, min_compute: 20}
  - {id: quality.basics, margin: 0.05, min_pass: 60}
  - {id: quality.basics.invalid, margin: 0.05, min_pass: 60}
"""


@pytest.fixture(scope="session")
def scratch(new_folder):
    """A fresh folder for each example."""

    @contextmanager
    def make(**names):
        with tempfile.TemporaryDirectory() as root:
            folder = new_folder(**names)
            folder.root, folder.policy = Path(root), POLICY
            yield folder

    return make


def fill(folder, scale, failures, lost, gained):
    folder.benchmark("baseline", folder.seconds(60, seed=1))
    folder.benchmark("candidate", folder.seconds(60, seed=2, scale=scale), failed=failures)
    folder.quality("baseline", [0.0] * gained + [1.0] * (60 - gained))
    folder.quality("candidate", [1.0] * (60 - lost) + [0.0] * lost)


situations = st.tuples(
    st.sampled_from([0.7, 1.0, 1.3, 2.0]), st.sampled_from([0, 0, 1, 9]), st.integers(0, 4), st.integers(0, 4)
)


@EXAMPLES
@given(situation=situations, gone=st.sets(st.integers(0, 3), min_size=1))
def test_less_evidence_never_turns_into_a_promotion(scratch, situation, gone):
    with scratch() as folder:
        fill(folder, *situation)
        whole = load_evidence(folder.root)
        before = folder.decide(evidence=whole)
        part = EvidenceSet(tuple(item for index, item in enumerate(whole.items) if index not in gone))
        after = folder.decide(evidence=part, history=[before.record])
    assert BETTER[after.verdict] <= BETTER[before.verdict]
    assert after.verdict != "promote"  # every kind needs both sides


@EXAMPLES
@given(situation=situations, order=st.permutations(range(4)))
def test_order_never_matters(scratch, situation, order):
    with scratch() as folder:
        fill(folder, *situation)
        items = load_evidence(folder.root).items
        shuffled = EvidenceSet(tuple(items[index] for index in order))
        assert folder.decide(evidence=shuffled).canonical == folder.decide().canonical


@EXAMPLES
@given(situation=situations, seed=st.integers(0, 1000))
def test_order_of_lines_and_keys_never_matters_to_an_outcome(scratch, situation, seed):
    def shuffled(lines):
        random.Random(seed).shuffle(lines)
        for line in lines:
            items = list(line.items())
            random.Random(seed).shuffle(items)
            line.clear()
            line.update(items)

    with scratch() as folder:
        fill(folder, *situation)
        before = folder.decide().record["rules"]
        scale, failures, lost, _ = situation
        folder.benchmark("candidate", folder.seconds(60, seed=2, scale=scale), failed=failures, lines=shuffled)
        folder.quality("candidate", [1.0] * (60 - lost) + [0.0] * lost, lines=shuffled)
        after = folder.decide().record["rules"]
    assert [{**rule, "evidence": 0} for rule in after] == [{**rule, "evidence": 0} for rule in before]


@EXAMPLES
@given(situation=situations, item=st.integers(0, 59), kind=st.sampled_from(["benchmark", "quality"]))
def test_a_worse_answer_never_helps(scratch, situation, item, kind):
    worse = {"outcome": "http_error"} if kind == "benchmark" else {"score": 0, "text_sha256": "f" * 64}
    scale, failures, lost, _ = situation
    with scratch() as folder:
        fill(folder, *situation)
        before = folder.decide().record["rules"]
        if kind == "benchmark":
            sides = folder.seconds(60, seed=2, scale=scale)
            folder.benchmark("candidate", sides, failed=failures, lines=lambda lines: lines[item].update(worse))
        else:
            folder.quality(
                "candidate", [1.0] * (60 - lost) + [0.0] * lost, lines=lambda lines: lines[item].update(worse)
            )
        after = folder.decide().record["rules"]
    for one, other in zip(before, after, strict=True):
        assert other["outcome"] != "pass" or one["outcome"] == "pass"


@EXAMPLES
@given(st.lists(st.floats(0.01, 10), min_size=20, max_size=80), st.lists(st.floats(0.01, 10), min_size=20, max_size=80))
def test_two_sides_are_never_both_worse_than_the_other(one, other):
    forth, back = quantile_ratio(one, other, 0.5), quantile_ratio(other, one, 0.5)
    assert not (forth.lo > 1.0 and back.lo > 1.0)


@EXAMPLES
@given(situation=situations)
def test_a_promotion_names_exactly_what_it_promotes(scratch, situation):
    with scratch() as folder:
        fill(folder, *situation)
        record = folder.decide().record
    assert (record["candidate"], record["expected_active"]) == (folder.candidate, folder.baseline)
    assert (record["action"] == "flip") is (record["verdict"] == "promote")


@EXAMPLES
@given(data=st.data())
def test_damaged_bytes_never_raise_and_never_promote(scratch, data):
    with scratch() as folder:
        fill(folder, 1.0, 0, 0, 0)
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
