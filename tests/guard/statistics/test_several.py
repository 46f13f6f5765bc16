"""Several rules judged together."""

from pulumi_infercrane.guard import statistics


def test_holm_steps_down():
    assert statistics.holm([0.01, 0.04, 0.03]) == (True, False, False)
    assert statistics.holm([0.001, 0.02, 0.04]) == (True, True, True)
    assert statistics.holm([0.02]) == (True,)
    assert statistics.holm([]) == ()


def test_the_order_the_claims_come_in_does_not_matter():
    assert statistics.holm((0.9, 0.01, 0.02)) == (False, True, True)
    assert statistics.holm((0.9, 0.02, 0.8)) == (False, False, False)


def test_a_p_of_just_its_share_of_alpha_stands():
    assert statistics.holm((0.025, 0.05), alpha=0.05) == (True, True)
    assert statistics.holm((0.0251, 0.05), alpha=0.05) == (False, False)
