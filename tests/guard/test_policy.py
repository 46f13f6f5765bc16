"""A policy says what it means or is refused, with the line and the way out."""

from datetime import timedelta
from pathlib import Path

import pytest

from pulumi_infercrane.guard import PolicyError, load_policy
from pulumi_infercrane.guard.canonical import digest_bytes

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules:\n  - {id: benchmark.error_fraction}\n"
KINDS = "benchmark, cost, quality, reliability, replay"


def refused(text, expected):
    with pytest.raises(PolicyError, match=expected):
        load_policy(text)


def test_a_whole_policy(folder):
    policy = load_policy(
        """\
schema: infercrane.policy/v1
service: chat
alpha: 0.05
max_looks: 2
bootstrap: true
min_duration_s: 20
required_kinds: {dev: [benchmark], default: [quality, benchmark]}
slo: {ttft_s: 0.5, e2e_s: 5}
rules:
  - {id: benchmark.attainment, limit: 0.9}
  - {id: benchmark.e2e_p95}
  - {id: quality.basics.contains, class: S, margin: 0.05, min_pass: 60}
  - {id: quality.basics.invalid}
max_age: {quality: 12h}
waivers:
  - {rule: benchmark.e2e_p95, reason: known, owner: ann, expires_at: 2026-12-31T00:00:00Z, revision_digest: x}
"""
    )
    assert (policy.service, policy.bootstrap, policy.settings.alpha) == ("chat", True, 0.025)
    assert policy.settings.min_duration_s == 20
    assert policy.notes == ("lowered_minimum: min_duration_s 20 instead of 60",)
    assert policy.settings.slo == {"ttft_s": 0.5, "e2e_s": 5.0}
    assert policy.oldest("quality", "prod") == timedelta(hours=12)
    assert policy.oldest("benchmark", "prod") == timedelta(days=7)
    assert policy.required_kinds("org/project/dev") == ("benchmark",)
    assert policy.required_kinds("prod") == ("benchmark", "quality")
    by_id = {rule.id: rule for rule in policy.rules}
    assert (by_id["benchmark.attainment"].bound, by_id["benchmark.attainment"].relative) == (0.9, False)
    assert (by_id["benchmark.e2e_p95"].hard, by_id["benchmark.e2e_p95"].bound) == (False, 0.15)
    assert by_id["quality.basics.contains"].notes == ("lowered_minimum: min_pass 60 instead of 300",)
    assert (by_id["quality.basics.invalid"].bound, by_id["quality.basics.invalid"].min_pass) == (0.01, 300)
    assert policy.waivers[0].owner == "ann"


def test_the_digest_is_that_of_the_bytes():
    assert load_policy(HEAD).digest == digest_bytes(HEAD.encode())
    assert load_policy(HEAD.encode()).digest == load_policy(HEAD).digest
    assert load_policy(HEAD + "# a remark\n").digest != load_policy(HEAD).digest


@pytest.mark.parametrize(
    ("rule", "bound", "hard", "min_pass", "min_compute"),
    [
        ("benchmark.error_fraction", 0.01, True, 1, 1),
        ("benchmark.error_fraction_difference", 0.005, True, 1, 1),
        ("benchmark.ttft_p50", 0.10, True, 500, 20),
        ("benchmark.ttft_p95", 0.15, True, 1000, 200),
        ("benchmark.ttft_p99", 0.25, False, 2000, 1000),
        ("benchmark.tpot_p50", 0.10, True, 200, 20),
        ("benchmark.tpot_p95", 0.15, True, 200, 200),
        ("benchmark.e2e_p95", 0.15, False, 1000, 200),
        ("replay.new_error_fraction", 0.01, True, 1, 1),
        ("replay.structured", 0.01, True, 300, 30),
        ("replay.truncated", 0.02, True, 300, 30),
        ("replay.output_length", 0.25, False, 300, 30),
        ("replay.e2e_p50", 0.10, False, 300, 30),
        ("reliability.error_fraction", 0.005, True, 1, 1),
        ("reliability.crashes", 0.0, True, 1, 1),
        ("reliability.rollback_drill", 300.0, True, 1, 1),
        ("cost.per_million_output_tokens", 0.10, False, 1, 1),
        ("quality.gsm8k", 0.02, True, 300, 30),
        ("quality.gsm8k.truncated", 0.01, True, 300, 30),
    ],
)
def test_defaults(rule, bound, hard, min_pass, min_compute):
    kind = rule.partition(".")[0]
    (loaded,) = load_policy(f"schema: infercrane.policy/v1\nrequired_kinds: [{kind}]\nrules: [{{id: {rule}}}]").rules
    assert (loaded.bound, loaded.hard, loaded.min_pass, loaded.min_compute) == (bound, hard, min_pass, min_compute)
    assert loaded.notes == ()


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_one():
    text = HEAD + "  - {id: benchmark.ttft_p95,\n     margn: 0.2}\n"
    refused(text, r"policy\.yaml:6: unknown key 'margn', did you mean 'margin'\?")


@pytest.mark.parametrize("name", ["demo", "local"])
def test_the_policies_of_the_examples_are_policies(name):
    """Only the demo itself would notice otherwise, after minutes."""
    path = Path(__file__).parents[2] / "examples" / name / "policy.yaml"
    assert load_policy(path.read_bytes(), str(path)).rules


def test_the_source_is_named():
    with pytest.raises(PolicyError, match=r"^guards/prod\.yaml:1: "):
        load_policy("- a", source="guards/prod.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("schema: infercrane.policy/v1\nrules: [{id: benchmark.ttft_p50}]", "required_kinds is missing"),
        (HEAD.replace("[benchmark]", "[]"), ":2: required_kinds is empty"),
        (HEAD.replace("[benchmark]", "{}"), ":2: required_kinds is empty"),
        (HEAD.replace("[benchmark]", "{dev: []}"), ":2: required_kinds is empty"),
        (HEAD.replace("[benchmark]", "[benchmark, quality]"), ":2: quality: kind 'quality' is required but no rule"),
        (
            HEAD.replace("[benchmark]", "[vibes]"),
            f":2: required_kinds: 'vibes' is no kind of evidence, known are {KINDS}",
        ),
        (HEAD.replace("[benchmark]", "{prod: by_change}"), ":2: by_change: kind 'cost' is required but no rule"),
        (HEAD.replace("[benchmark]", "[benchmark, by_change]"), ":2: by_change: kind 'cost' is required but no rule"),
        (HEAD.replace("[benchmark]", "benchmark"), ":2: required_kinds: 'benchmark' is not one of by_change"),
        (HEAD + "by_change: {engine: [benchmark]}", ":5: unknown key 'engine', known are model, runtime"),
        (HEAD + "by_change: {runtime: [replay]}", ":5: replay: kind 'replay' is required but no rule judges it"),
        (HEAD.partition("rules")[0], "there are no rules"),
        ("schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: []", "no rule judges it"),
        (HEAD.replace("policy/v1", "policy/v2"), "schema: infercrane.policy/v1"),
        (HEAD.partition("\n")[2], "schema: infercrane.policy/v1"),
        (HEAD + "  - {id: benchmark.error_fraction}", ":5: rule 'benchmark.error_fraction' is written twice"),
        (HEAD + "  - {id: vibes.good}", f":5: rule 'vibes.good': 'vibes' is no kind of evidence, known are {KINDS}"),
        (HEAD + "  - {id: cost.usd}", ":5: no rule 'cost.usd'; known are cost.per_million"),
        (HEAD + "  - {id: cost.max_per_good_request}", ":5: rule 'cost.max_per_good_request' needs 'limit'"),
        (HEAD + "currency: dollars", ":5: currency: 'dollars' is not a currency code"),
        (HEAD + "min_soak_s: -1", ":5: min_soak_s: -1 is not between"),
        (HEAD + "  - {id: benchmark.ttft_p59}", ":5: no rule .*; did you mean 'benchmark.ttft_p"),
        (HEAD + "  - {id: qualty.basics}", ":5: .*'qualty' is no kind of evidence, did you mean 'quality'"),
        (HEAD + "  - {id: benchmark.ttft_p50, margin: 15%}", ":5: margin: '15%' is not a number: a share of 1 % is"),
        (HEAD + "min_duration_s: 60s", ":5: min_duration_s: '60s' is not a number"),
        (HEAD + "  - {id: benchmark.speed}", ":5: no rule 'benchmark.speed'"),
        (HEAD + "  - {id: quality}", ":5: no rule 'quality'"),
        (HEAD + "  - {margin: 1}", ":5: rules: 'id' is missing"),
        (HEAD + "  - {id: benchmark.ttft_p50, limit: 1}", ":5: rule 'benchmark.ttft_p50' takes 'margin', not 'limit'"),
        (HEAD + "  - {id: benchmark.ttft_p50, margin: -1}", ":5: margin: -1 is not between 0 and"),
        (
            HEAD + "  - {id: benchmark.ttft_p50, margin: 15}",
            ":5: margin: 15 is too high for a ratio - 1, at most 4: 1 %",
        ),
        (HEAD.replace("fraction}", "fraction, limit: 1}"), ":4: limit: 1 is too high for a share, .* 1 % is 0.01"),
        (HEAD + "  - {id: quality.x, margin: 2}", ":5: margin: 2 is too high for a score"),
        (HEAD + "  - {id: benchmark.out_tokens_per_s, margin: 1}", ":5: margin: 1 is too high for a 1 - ratio"),
        (HEAD + "  - {id: benchmark.ttft_p50, margin: .nan}", ":5: margin: .* is not a number"),
        (HEAD + "  - {id: benchmark.ttft_p50, margin: nan}", ":5: margin: nan is not between"),
        (HEAD + "  - {id: benchmark.ttft_p50, margin: much}", ":5: margin: .* is not a number"),
        (HEAD + "  - {id: benchmark.ttft_p50, min_pass: 0}", ":5: min_pass: 0 is not between"),
        (HEAD + "  - {id: benchmark.ttft_p50, min_pass: 1.5}", ":5: min_pass: .1.5. is not a whole number"),
        (HEAD + "  - {id: benchmark.ttft_p50, class: X}", ":5: class: 'X' is not one of H, S"),
        (HEAD + "  - {id: benchmark.attainment}", ":5: rule 'benchmark.attainment' needs 'slo'"),
        (HEAD + "  - benchmark.ttft_p50", ":5: rules: a mapping was expected"),
        (HEAD + "slo: {}", ":5: slo is empty"),
        (HEAD + "slo: {ttft_ms: 500}", ":5: unknown key 'ttft_ms', did you mean 'ttft_s'"),
        (HEAD + "alpha: 0.5", ":5: alpha: 0.5 is not between"),
        (HEAD + "max_age: {benchmark: 7}", ":5: benchmark: '7' is not a duration"),
        (HEAD + "max_age: {vibes: 7d}", ":5: unknown key 'vibes'"),
        (HEAD + "bootstrap: yes", ":5: bootstrap: 'yes' is not one of true, false"),
        (HEAD + "trust: {require_signatures: true}", ":5: trust: 'keys' is missing"),
        (HEAD + "alpha: 0.05\nalpha: 0.04", ":6: key 'alpha' is written twice"),
        (HEAD + "waivers: [{rule: benchmark.error_fraction}]", ":5: waivers: 'reason' is missing"),
        (HEAD + "service: ''", ":5: service: must not be empty"),
        (HEAD + "service: [a]", ":5: service: a single value was expected"),
        ("a: [1", ":1: "),
        ("a: &x 1\nb: *x", ":2: aliases are not used here"),
        ("a: 1\n---\nb: 2", ":2: but found another document"),
        (b"a: \xff", "not UTF-8 at byte 3"),
        ("[" * 1500, "nested too deep"),
        ("#" * 2_000_000, "at most 1048576 are read"),
    ],
)
def test_refused_with_the_line(text, expected):
    refused(text, expected)


def test_a_weaker_level_is_noted_whatever_the_number_of_looks():
    assert load_policy(HEAD + "alpha: 0.1\nmax_looks: 2").notes == ("raised_alpha: alpha 0.1 instead of 0.05",)
    assert load_policy(HEAD + "alpha: 0.05").notes == ()


def test_a_waiver_names_an_existing_rule_and_a_time():
    waiver = "waivers: [{{rule: {}, reason: a, owner: b, expires_at: {}, revision_digest: c}}]"
    refused(HEAD + waiver.format("benchmark.e2e_p95", "2026-12-31T00:00:00Z"), "which is not among the rules")
    refused(HEAD + waiver.format("benchmark.error_fraction", "soon"), "expires_at: 'soon' is not a UTC time")


def test_a_stack_the_policy_does_not_name_is_refused():
    policy = load_policy(HEAD.replace("[benchmark]", "{dev: [benchmark]}"))
    with pytest.raises(PolicyError, match="says nothing about stack 'prod'"):
        policy.required_kinds("org/project/prod")


# --- kinds that a change needs ----------------------------------------------------------------------------------

EVERY_KIND = """\
schema: infercrane.policy/v1
required_kinds: {dev: [benchmark], staging: [by_change, replay], default: by_change}
rules:
  - {id: benchmark.error_fraction}
  - {id: cost.per_million_output_tokens}
  - {id: quality.basics}
  - {id: reliability.crashes}
  - {id: replay.new_error_fraction}
"""
ALL = ("benchmark", "cost", "quality", "reliability", "replay")


@pytest.mark.parametrize(
    ("stack", "classes", "kinds"),
    [
        ("dev", ["accelerator"], ("benchmark",)),
        ("prod", ["model"], ("benchmark", "quality", "reliability", "replay")),
        ("prod", ["runtime"], ("benchmark", "quality", "reliability")),
        ("prod", ["accelerator"], ("benchmark", "cost", "quality", "reliability")),
        ("prod", ["scale"], ("cost", "reliability")),
        ("prod", ["runtime", "scale"], ("benchmark", "cost", "quality", "reliability")),
        ("prod", [], ALL),
        ("staging", ["scale"], ("cost", "reliability", "replay")),
    ],
)
def test_required_kinds_follow_from_the_change(stack, classes, kinds):
    assert load_policy(EVERY_KIND).required_kinds(f"org/project/{stack}", classes) == kinds


def test_a_policy_adds_kinds_to_a_change_and_takes_none_away():
    policy = load_policy(EVERY_KIND + "by_change: {scale: [benchmark], runtime: []}\n")
    assert policy.required_kinds("prod", ["scale"]) == ("benchmark", "cost", "reliability")
    assert policy.required_kinds("prod", ["runtime"]) == ("benchmark", "quality", "reliability")
    assert policy.required_kinds("prod") == ALL
