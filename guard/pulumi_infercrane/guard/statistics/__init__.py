"""Bounds and intervals, nothing else. `alpha` is one-sided: 0.05 gives 95 % bounds, together a 90 % interval.

Closed form, continued fraction, quadrature or bisection; nothing is drawn at random. Sums are sorted and compensated,
so that every processor comes to the same nine digits.
"""

from pulumi_infercrane.guard.statistics.bands import guard_band, within_band
from pulumi_infercrane.guard.statistics.intervals import (
    POWER,
    Difference,
    Interval,
    binomial_at_least,
    binomial_at_most,
    normal_quantile,
    normal_tail,
    regularized_beta,
    student_quantile,
    student_tail,
)
from pulumi_infercrane.guard.statistics.paired import (
    Paired,
    mean_over_tasks,
    paired_difference,
    pairs_needed,
    score_z,
    unpaired_scores,
)
from pulumi_infercrane.guard.statistics.proportions import (
    clean_minimum,
    lower_bound,
    proportion,
    unpaired_difference,
    upper_bound,
    wilson,
)
from pulumi_infercrane.guard.statistics.quantiles import (
    PairedRatio,
    Ratio,
    Weighted,
    paired_ratio,
    quantile,
    quantile_interval,
    quantile_ratio,
    rank_of,
)
from pulumi_infercrane.guard.statistics.repeats import FEWEST_RUNS, Repeated, repeated_ratio
from pulumi_infercrane.guard.statistics.several import holm

__all__ = [
    "FEWEST_RUNS",
    "POWER",
    "Difference",
    "Interval",
    "Paired",
    "PairedRatio",
    "Ratio",
    "Repeated",
    "Weighted",
    "binomial_at_least",
    "binomial_at_most",
    "clean_minimum",
    "guard_band",
    "holm",
    "lower_bound",
    "mean_over_tasks",
    "normal_quantile",
    "normal_tail",
    "paired_difference",
    "paired_ratio",
    "pairs_needed",
    "proportion",
    "quantile",
    "quantile_interval",
    "quantile_ratio",
    "rank_of",
    "regularized_beta",
    "repeated_ratio",
    "score_z",
    "student_quantile",
    "student_tail",
    "unpaired_difference",
    "unpaired_scores",
    "upper_bound",
    "wilson",
    "within_band",
]
