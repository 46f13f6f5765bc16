"""Several rules judged together."""

from collections.abc import Sequence


def holm(p_values: Sequence[float], alpha: float = 0.05) -> tuple[bool, ...]:
    """Which of several one-sided claims stand together at `alpha`, by Holm's step-down procedure."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    stands = [False] * len(p_values)
    for step, index in enumerate(order):
        if p_values[index] > alpha / (len(p_values) - step):
            break
        stands[index] = True
    return tuple(stands)
