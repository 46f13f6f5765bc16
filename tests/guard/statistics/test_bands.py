"""Outcomes beside a single limit: a band, and figures that come without an interval."""

import pytest

from pulumi_infercrane.guard.statistics import Interval, guard_band, within_band


@pytest.mark.parametrize(
    ("lo", "hi", "outcome"),
    [
        (0.9, 1.1, "pass"),
        (0.8, 1.25, "pass"),
        (0.79, 1.1, "unknown"),
        (0.9, 1.26, "unknown"),
        (0.7, 1.3, "unknown"),
        (0.5, 0.79, "fail"),
        (1.26, 2.0, "fail"),
        (0.5, 0.8, "unknown"),
        (1.25, 2.0, "unknown"),
    ],
)
def test_a_band_holds_both_bounds(lo, hi, outcome):
    assert within_band(Interval((lo + hi) / 2, lo, hi), 0.8, 1.25) == outcome


@pytest.mark.parametrize(
    ("ratio", "margin", "outcome"),
    [
        (1.075, 0.15, "pass"),
        (1.0751, 0.15, "unknown"),
        (1.2999, 0.15, "unknown"),
        (1.30, 0.15, "fail"),
        (0.5, 0.15, "pass"),
        (1.05, 0.10, "pass"),
        (1.2, 0.10, "fail"),
        (float("inf"), 0.15, "fail"),
        (float("nan"), 0.15, "unknown"),
    ],
)
def test_without_an_interval_half_a_margin_passes_and_two_fail(ratio, margin, outcome):
    assert guard_band(ratio, margin) == outcome
