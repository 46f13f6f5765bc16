"""The A/A run: what chance alone does to the rules of a policy."""

import pytest

from pulumi_infercrane.guard import EvidenceError, load_evidence, load_policy
from pulumi_infercrane.guard.dealing import deal
from pulumi_infercrane.guard.noise import noise_of

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark, quality]
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: benchmark.ttft_p95, margin: MARGIN, min_pass: 200}
  - {id: quality.basics, margin: 0.05, min_pass: 60}
"""


@pytest.fixture
def same(new_folder):
    """A folder of measurements of one revision."""
    folder = new_folder()
    folder.subjects["candidate"] = folder.subjects["baseline"]
    return folder


def measured_twice(folder, n=400, scale=1.0, wrong=(2, 2)):
    for index, role in enumerate(("baseline", "candidate")):
        folder.benchmark(role, folder.seconds(n, seed=index + 1, scale=scale if index else 1.0))
        right = 60 - wrong[index]
        folder.quality(role, [1.0] * right + [0.0] * wrong[index])
    return folder


def noise(folder, margin=0.5, dealings=40):
    policy = load_policy(POLICY.replace("MARGIN", str(margin)))
    return noise_of(policy, load_evidence(folder.root), folder.baseline, dealings)


def of_rule(found, name):
    return next(one for one in found.rules if one.rule.id == name)


def test_every_rule_of_a_kind_measured_twice_is_reported(same):
    found = noise(measured_twice(same))
    assert [one.rule.id for one in found.rules] == ["benchmark.error_fraction", "benchmark.ttft_p95", "quality.basics"]
    assert [one.n for one in found.rules] == [400, 400, 60]
    assert all((len(one.measured), len(one.dealt)) == (2, 40) for one in found.rules)


def test_a_wide_margin_lets_equal_sides_pass(same):
    found = noise(measured_twice(same))
    latency = of_rule(found, "benchmark.ttft_p95")
    assert (latency.share("fail"), latency.share("unknown"), latency.between_runs) == (0.0, 0.0, False)
    assert found.verdicts["promote"] + found.verdicts["insufficient_evidence"] == 40
    assert found.verdicts["promote"] > 30


def test_a_copy_of_a_run_is_no_second_run(same):
    """It would show no noise between runs at all."""
    path = same.benchmark("baseline", same.seconds(400))
    lines = (path.parent / "benchmark-baseline.benchmark.jsonl").read_bytes()
    same.write_raw("benchmark", "candidate", "copy", lines + b"\n", planned=400)
    with pytest.raises(EvidenceError, match=r"two runs .* are needed, admissible are: 1 of benchmark"):
        noise(same)


def test_a_margin_within_the_noise_leaves_the_rule_unknown_and_says_what_would_do(same):
    latency = of_rule(noise(measured_twice(same), margin=0.05), "benchmark.ttft_p95")
    assert latency.share("unknown") > 0.7
    low, high = latency.spread
    assert 0.8 < low < 1 < high < 1.25
    assert 0.1 < latency.margin < 0.5
    assert 2_000 < latency.enough < 8_000


def test_the_margin_it_proposes_does_let_equal_sides_pass(same):
    proposed = of_rule(noise(measured_twice(same), margin=0.05), "benchmark.ttft_p95").margin
    again = of_rule(noise(same, margin=proposed), "benchmark.ttft_p95")
    assert again.share("pass") >= 0.75


def test_the_number_it_proposes_does_let_equal_sides_pass(same, new_folder):
    margin = 0.12
    enough = of_rule(noise(measured_twice(same, n=250), margin=margin), "benchmark.ttft_p95").enough
    larger = new_folder()
    larger.subjects["candidate"] = larger.subjects["baseline"]
    again = of_rule(noise(measured_twice(larger, n=enough), margin=margin), "benchmark.ttft_p95")
    assert 250 < enough < 1500
    assert again.share("pass") > 0.6


def test_noise_between_the_runs_is_told_from_noise_within(same):
    latency = of_rule(noise(measured_twice(same, scale=1.3)), "benchmark.ttft_p95")
    assert latency.between_runs


def test_quality_is_dealt_by_item(same):
    quality = of_rule(noise(measured_twice(same, wrong=(2, 3))), "quality.basics")
    estimates = {finding.estimate for finding in quality.dealt}
    assert len(estimates) == 2
    assert sum(estimates) == pytest.approx(0)


def test_pairs_without_a_change_prove_no_smaller_margin_than_their_number_does(same):
    for role in ("baseline", "candidate"):
        same.quality(role, [1.0] * 60)
        same.benchmark(role, same.seconds(100, seed=len(role)))
    quality = of_rule(noise(same), "quality.basics")
    assert quality.margin == 0.05  # 2.7 / (60 + 2.7) is 0.043
    assert quality.enough == 60


def test_an_absolute_limit_needs_no_margin(same):
    errors = of_rule(noise(measured_twice(same)), "benchmark.error_fraction")
    assert errors.margin is None
    assert errors.enough == 59  # with fewer not even a run without a failure passes


def test_the_same_files_give_the_same_report(same):
    measured_twice(same)
    assert noise(same, dealings=5) == noise(same, dealings=5)


def test_a_kind_measured_once_is_left_out(same):
    measured_twice(same)
    (same.root / "quality-candidate.evidence.json").unlink()
    assert {one.rule.kind for one in noise(same).rules} == {"benchmark"}


def test_without_two_runs_there_is_nothing_to_compare(same):
    same.benchmark("baseline")
    with pytest.raises(EvidenceError, match=r"two runs of revision .* are needed, admissible are: 1 of benchmark"):
        noise(same)


def test_dealing_keeps_every_request(same):
    measured_twice(same, n=50)
    one, other = [item.record for item in load_evidence(same.root).items if item.envelope.kind == "benchmark"]
    dealt = deal(one, other, "key")
    assert sum(record.attempted for record in dealt) == 100
    before = sorted([*one.requests.ttft_s, *other.requests.ttft_s])
    assert sorted([*dealt[0].requests.ttft_s, *dealt[1].requests.ttft_s]) == before
    assert dealt[0].requests.ttft_s not in (one.requests.ttft_s, other.requests.ttft_s)


def test_dealing_refuses_what_it_cannot_tell_apart(same):
    measured_twice(same)
    records = {item.envelope.kind: item.record for item in load_evidence(same.root).items}
    with pytest.raises(TypeError, match="a Benchmark and a Quality"):
        deal(records["benchmark"], records["quality"], "key")
