"""What a rule asks for when the policy only names it. A changed line here changes verdicts: raise the guard version."""

from datetime import timedelta

import pytest

from pulumi_infercrane.guard.judging.rule import RuleForm
from pulumi_infercrane.guard.rules import find_kind, known_kinds

DAYS = timedelta(days=1)

# bound, default, hard, min_pass, min_compute, unit, what minima count
DEFAULTS = {
    "benchmark.error_fraction": ("limit", 0.01, True, 1, 1, "share", "requests"),
    "benchmark.error_fraction_difference": ("margin", 0.005, True, 1, 1, "share", "requests"),
    "benchmark.empty_fraction": ("limit", 0.01, True, 1, 1, "share", "requests"),
    "benchmark.attainment": ("limit", 0.95, True, 1, 1, "share", "requests"),
    "benchmark.ttft_p50": ("margin", 0.10, True, 500, 20, "ratio - 1", "requests"),
    "benchmark.ttft_p95": ("margin", 0.15, True, 1000, 200, "ratio - 1", "requests"),
    "benchmark.ttft_p99": ("margin", 0.25, False, 2000, 1000, "ratio - 1", "requests"),
    "benchmark.tpot_p50": ("margin", 0.10, True, 200, 20, "ratio - 1", "requests"),
    "benchmark.tpot_p95": ("margin", 0.15, True, 200, 200, "ratio - 1", "requests"),
    "benchmark.e2e_p95": ("margin", 0.15, False, 1000, 200, "ratio - 1", "requests"),
    "benchmark.out_tokens_per_s": ("margin", 0.10, False, 1, 1, "1 - ratio", "requests"),
    "cost.per_million_output_tokens": ("margin", 0.10, False, 1, 1, "ratio - 1", "windows"),
    "cost.per_good_request": ("margin", 0.10, False, 1, 1, "ratio - 1", "windows"),
    "cost.max_per_million_output_tokens": ("limit", None, True, 1, 1, "currency", "windows"),
    "cost.max_per_good_request": ("limit", None, True, 1, 1, "currency", "windows"),
    "quality.<task>": ("margin", 0.02, True, 300, 30, "score 0..1", "pairs"),
    "quality.<task>.<metric>": ("margin", 0.02, True, 300, 30, "score 0..1", "pairs"),
    "quality.<task>.invalid": ("margin", 0.01, True, 300, 30, "share", "pairs"),
    "quality.<task>.truncated": ("margin", 0.01, True, 300, 30, "share", "pairs"),
    "quality.mean": ("margin", 0.01, True, 300, 300, "score 0..1", "items in all"),
    "reliability.error_fraction": ("limit", 0.005, True, 1, 1, "share", "requests"),
    "reliability.timeouts": ("limit", 0.005, True, 1, 1, "share", "requests"),
    "reliability.crashes": ("limit", 0.0, True, 1, 1, "events", "soaks"),
    "reliability.oom_kills": ("limit", 0.0, True, 1, 1, "events", "soaks"),
    "reliability.restarts": ("limit", 0.0, True, 1, 1, "events", "soaks"),
    "reliability.ghost_replicas": ("limit", 0.0, True, 1, 1, "events", "soaks"),
    "reliability.unready_s": ("limit", 0.0, True, 1, 1, "s", "soaks"),
    "reliability.cold_start_p95": ("limit", None, True, 3, 3, "s", "cold starts"),
    "reliability.rollback_drill": ("limit", 300.0, True, 1, 1, "s", "drills"),
    "reliability.cut_streams": ("limit", 0.0, True, 1, 1, "streams", "open streams"),
    "replay.new_error_fraction": ("margin", 0.01, True, 1, 1, "share", "pairs"),
    "replay.structured": ("margin", 0.01, True, 300, 30, "share", "pairs"),
    "replay.tool_calls": ("margin", 0.01, True, 300, 30, "share", "pairs"),
    "replay.refused": ("margin", 0.02, True, 300, 30, "share", "pairs"),
    "replay.truncated": ("margin", 0.02, True, 300, 30, "share", "pairs"),
    "replay.output_length": ("margin", 0.25, False, 300, 30, "ratio - 1, both ways", "pairs"),
    "replay.e2e_p50": ("margin", 0.10, False, 300, 30, "ratio - 1", "pairs"),
    "replay.similarity": ("margin", 0.10, False, 300, 30, "similarity 0..1", "pairs"),
}


def test_every_rule_has_the_defaults_that_are_documented():
    found = {rule: form for kind in known_kinds() for rule, form in find_kind(kind).forms.items()}
    assert found == {rule: RuleForm(*fields) for rule, fields in DEFAULTS.items()}


@pytest.mark.parametrize("rule", [rule for rule in DEFAULTS if "<" not in rule])
def test_a_rule_is_found_by_its_id(rule):
    kind = find_kind(rule.partition(".")[0])
    assert kind.form(rule) == kind.forms[rule]
    assert kind.form(f"{rule}_of_mine") is None or kind.name == "quality"


@pytest.mark.parametrize(
    ("name", "age", "in_production"),
    [
        ("benchmark", 7 * DAYS, None),
        ("cost", 7 * DAYS, None),
        ("quality", 30 * DAYS, None),
        ("reliability", 7 * DAYS, DAYS),
        ("replay", 7 * DAYS, None),
    ],
)
def test_a_kind_says_its_name_its_age_and_a_rule_of_its_own(name, age, in_production):
    kind = find_kind(name)
    assert (kind.name, kind.max_age, kind.max_age_in_production) == (name, age, in_production)
    assert kind.form(kind.example.replace("<task>", "mine")) == kind.forms[kind.example]
