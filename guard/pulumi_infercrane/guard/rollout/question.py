"""Which traffic windows are asked for, and why one is not of them: its service, stack, time or weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pulumi_infercrane.guard.evidence.window import LoadedWindow, Window
from pulumi_infercrane.guard.policy import same_stack
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.guard.trust.dsse import WINDOW_TYPE
from pulumi_infercrane.guard.trust.gate import Statement, vouchers
from pulumi_infercrane.guard.trust.store import WINDOW, Trust

CLOCK_TOLERANCE = timedelta(minutes=5)


@dataclass(frozen=True)
class Question:
    """Which windows are asked for, and how much of them."""

    service: str
    stack: str
    candidate: str
    weights: Mapping[str, int]
    """What the route must have carried, in percent by revision; a revision that is not named had 0."""
    started: datetime
    as_of: datetime
    at_least: timedelta
    """Traffic that must have been watched before anything is concluded from it."""
    fresh: timedelta
    """How old the newest window may be."""
    withdrawn: frozenset[str] = frozenset()
    """Windows an earlier decision used and which are not given any more."""
    trust: Trust | None = None
    """Who may vouch for a window; None asks for nothing."""


def window_problem(question: Question, loaded: LoadedWindow) -> Problem | None:
    """Why a window does not count in a question; None when it does, as far as its signatures let it."""
    window = loaded.window
    if window is None:
        return loaded.problem
    if window.service != question.service:
        return Problem("binding_mismatch", f"of service {window.service!r}, not of {question.service!r}")
    elsewhere = stack_problem(question.trust, window, question.stack)
    if elsewhere:
        return elsewhere
    if window.generations[0] != window.generations[1]:
        return Problem("subject_changed", "the route was changed while the window was open")
    if window.started < question.started:
        return Problem("stale", f"began before {format_time(question.started)}, with other weights")
    if window.ended > question.as_of + CLOCK_TOLERANCE:
        return Problem("clock", f"ended at {format_time(window.ended)}, which is after the time of this decision")
    carried = {revision: binding.weight for revision, binding in window.bindings.items() if binding.weight}
    if carried != question.weights:
        return Problem("binding_mismatch", f"the route carried {_shares(carried)}, not {_shares(question.weights)}")
    return None


def of_this_route(question: Question, window: Window) -> bool:
    """Whether a window may be of the route that is asked about; one that names no stack may."""
    here = not window.stack or same_stack(window.stack, question.stack)
    return window.service == question.service and here


def vouched_for(trust: Trust | None, loaded: LoadedWindow) -> tuple[tuple[str, ...], Problem | None]:
    """Ids of the keys whose signatures of a window that was read count, and why it may not be used."""
    if loaded.window is None:
        return (), loaded.problem
    statement = Statement(WINDOW_TYPE, loaded.body, WINDOW, loaded.window.ended)
    return vouchers(trust, loaded.attestation, statement)


def stack_problem(trust: Trust | None, window: Window, stack: str) -> Problem | None:
    """Why a window may not be used in a stack. One without a stack may be where nobody has to vouch for windows."""
    if window.stack:
        here = same_stack(window.stack, stack)
        return None if here else Problem("binding_mismatch", f"of stack {window.stack!r}, not of {stack!r}")
    if trust is None or not trust.require_signatures:
        return None
    wanted = "a window of a route whose table names its stack"
    return Problem("binding_missing", "names no stack: a signature alone does not say where it was counted", wanted)


def _shares(weights: Mapping[str, int]) -> str:
    return " and ".join(f"{weight} % {revision[:19]}…" for revision, weight in sorted(weights.items()))
