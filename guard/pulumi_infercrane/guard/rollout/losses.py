"""Judging windows in which a process of the router was lost, and with it most of all what it failed."""

from collections.abc import Callable, Sequence

from pulumi_infercrane.guard.evidence.window import Window
from pulumi_infercrane.guard.verdict import Judged


def despite_losses(judge: Callable[[Sequence[Window]], list[Judged]], used: Sequence[Window]) -> list[Judged]:
    """Every rule on the windows that are whole. What was counted in the others is true and can fail it, no more."""
    whole = [window for window in used if not window.lost]
    everything = judge(used)
    if len(whole) == len(used):
        return everything
    return [one if one.finding.outcome == "fail" else sure for one, sure in zip(everything, judge(whole), strict=True)]
