"""What only whoever runs the replicas can do to them, or know of them. The guard itself starts and stops nothing.

Each call raises `CollectError` when it cannot be done; nothing is done to a replica that serves users.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from pulumi_infercrane.guard.collect.target import Target


@dataclass(frozen=True)
class Rehearsal:
    """A route with both revisions behind it that no user knows; the baseline is active to begin with."""

    base_url: str
    """The stable address, without `/v1`. Answers say in `X-InferCrane-Revision` whose they are."""
    promote: Callable[[], Awaitable[None]]
    """Make the candidate active."""
    roll_back: Callable[[], Awaitable[None]]
    """Make the baseline active again; open streams of the candidate go on."""
    drain: Callable[[], Awaitable[None]]
    """No new request to the candidate; returns when its open streams have ended, or were cut at the deadline."""


@dataclass(frozen=True)
class Handles:
    """What a drill may use; what needs one that is None cannot be measured."""

    restart: Callable[[], Awaitable[float]] | None = None
    """End the candidate's process and start it again; the time of the start, by `time.perf_counter`."""
    rehearse: Callable[[Target, Target], AbstractAsyncContextManager[Rehearsal]] | None = None
    """Set up a rehearsal for candidate and baseline, and take it down again."""
    oom_kills: Callable[[], int | None] = lambda: None
    """Kills for lack of memory that were counted so far where the candidate runs; None while nobody counts them."""


NO_HANDLES = Handles()
