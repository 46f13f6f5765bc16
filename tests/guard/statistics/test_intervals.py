"""Tails and quantiles of the distributions bounds are made of, against scipy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from pulumi_infercrane.guard import statistics

EXAMPLES = settings(max_examples=100)


@EXAMPLES
@given(st.floats(0, 1), st.integers(1, 50_000), st.integers(1, 50_000))
def test_incomplete_beta_is_that_of_scipy(x, a, b):
    assert statistics.regularized_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-10)


def test_normal_quantile_is_that_of_scipy():
    for alpha in (0.05, 0.025, 0.01, 0.001, 0.2):
        assert statistics.normal_quantile(alpha) == pytest.approx(special.ndtri(1 - alpha), abs=1e-10)


@pytest.mark.parametrize(
    ("df", "t"),
    [(2, 2.9200), (3, 2.3534), (4, 2.1318), (5, 2.0150), (9, 1.8331), (15, 1.7531), (20, 1.7247), (30, 1.6973)],
)
def test_student_values(df, t):
    assert statistics.student_quantile(0.05, df) == pytest.approx(t, abs=5e-5)


@EXAMPLES
@given(st.floats(-50, 50), st.integers(1, 200))
def test_the_student_tail_is_that_of_scipy(t, df):
    assert statistics.student_tail(t, df) == pytest.approx(special.stdtr(df, -t), abs=2e-8)


@EXAMPLES
@given(st.floats(0.001, 0.5), st.integers(1, 200))
def test_the_student_quantile_is_that_of_scipy(alpha, df):
    assert statistics.student_quantile(alpha, df) == pytest.approx(special.stdtrit(df, 1 - alpha), rel=1e-7, abs=1e-9)


def test_the_ends_of_the_binomial_distribution():
    assert statistics.binomial_at_least(0, 5, 0.3) == statistics.binomial_at_most(5, 5, 0.3) == 1
    assert statistics.binomial_at_least(1, 5, 0.3) == pytest.approx(1 - 0.7**5)
    assert statistics.binomial_at_most(4, 5, 0.3) == pytest.approx(1 - 0.3**5)
    assert statistics.binomial_at_most(0, 5, 0.3) == pytest.approx(0.7**5)


def test_the_ends_of_the_incomplete_beta():
    assert [statistics.regularized_beta(x, 2, 3) for x in (-0.5, 0, 1, 1.5)] == [0, 0, 1, 1]
