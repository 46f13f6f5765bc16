"""Watching one replica from outside while it is under load: when it was not ready, and when it went away.

What is seen is a lower bound: a replica that dies and is back between two looks, without a connection refused, and that
tells neither when it started nor what it counted, was not seen to die.
"""

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp

from pulumi_infercrane.guard.collect.probes import Sign, look
from pulumi_infercrane.guard.collect.target import Target

LOOK_EVERY_S = 1.0


@dataclass
class Watch:
    """What was seen since the last `take`."""

    crashes: int = 0
    """It stopped taking connections, or began anew, although nobody asked it to."""
    restarts: int | None = None
    """It began anew; None while it shows nothing that would tell."""
    unready_s: float = 0.0
    """To the second or so: from the look that found it unready to the one that found it ready."""
    _last: Sign | None = field(default=None, init=False)
    _looked_at: float = field(default=0.0, init=False)
    _down: bool = field(default=False, init=False)
    """It was seen to be away, and has not been seen to begin anew since."""

    def refused(self) -> None:
        """A request of the load found nobody to take it: no look could be quicker."""
        if not self._down:
            self._down = True
            self.crashes += 1

    def saw(self, sign: Sign, at: float) -> None:
        """Take in one look; `at` in seconds of a clock that only goes forward."""
        if self._last is not None and not self._last.ready:
            self.unready_s += at - self._looked_at
        if not sign.listens:
            self.refused()
        else:
            self._compare(sign)
        self._last, self._looked_at = self._remembered(sign), at

    def take(self) -> dict[str, float]:
        """The counts since the last time, which start again from nothing."""
        taken: dict[str, float] = {"crashes": self.crashes, "unready_s": round(self.unready_s, 3)}
        if self.restarts is not None:
            taken["restarts"] = self.restarts
            self.restarts = 0
        self.crashes, self.unready_s = 0, 0.0
        return taken

    def _compare(self, sign: Sign) -> None:
        if self.restarts is None and sign.tells:
            self.restarts = 0
        if self._last is not None and began_anew(self._last, sign):
            self.restarts = (self.restarts or 0) + 1
            self.crashes += 0 if self._down else 1
        if sign.ready:
            self._down = False

    def _remembered(self, sign: Sign) -> Sign:
        """What a silent replica does not tell is what it told before."""
        if self._last is None or sign.tells:
            return sign
        return Sign(sign.listens, sign.ready, self._last.started, self._last.counted)


async def look_on(session: aiohttp.ClientSession, target: Target, watch: Watch) -> None:
    """Look every second until cancelled."""
    while True:
        watch.saw(await look(session, target), time.perf_counter())
        await asyncio.sleep(LOOK_EVERY_S)


def began_anew(before: Sign, now: Sign) -> bool:
    """Whether a replica shows, by its start time or by a counter that fell, that it is a new process."""
    if before.started is not None and now.started is not None:
        return now.started != before.started
    return before.counted is not None and now.counted is not None and now.counted < before.counted
