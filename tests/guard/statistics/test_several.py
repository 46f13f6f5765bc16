"""Several rules judged together."""

from pulumi_infercrane.guard import statistics


def test_holm_steps_down():
    assert statistics.holm([0.01, 0.04, 0.03]) == (True, False, False)
    assert statistics.holm([0.001, 0.02, 0.04]) == (True, True, True)
    assert statistics.holm([0.02]) == (True,)
    assert statistics.holm([]) == ()
