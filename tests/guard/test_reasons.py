"""Every reason has its place among the gates, and every one that leaves a rule open says what would settle it."""

import pytest

from pulumi_infercrane.guard.reasons import GATES, gate_rank, way_out

BEFORE_SUFFICIENCY = ("parse", "integrity", "schema", "values", "binding", "freshness", "completeness", "comparability")


@pytest.mark.parametrize("gate", BEFORE_SUFFICIENCY)
def test_what_keeps_evidence_from_counting_has_a_way_out(gate):
    assert [code for code in GATES[gate] if not way_out(code)] == []


def test_a_code_nobody_knows_is_an_error():
    with pytest.raises(KeyError):
        gate_rank("not_comparible")


def test_an_unknown_rule_of_a_decision_says_what_would_settle_it(folder):
    folder.both()
    folder.benchmark("candidate", change=lambda envelope: envelope["scenario"].update(id="chat-long"))
    rules = folder.decide().record["rules"]
    assert [rule["needs"] for rule in rules if rule["outcome"] == "unknown"] == [
        "both sides measured with the same workload at the same operating point"
    ]
    assert not any("needs" in rule for rule in rules if rule["outcome"] == "pass")
