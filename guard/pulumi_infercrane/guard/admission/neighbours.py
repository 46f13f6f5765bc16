"""Which of many runs may share requests, without comparing each with each other.

Two runs that share `FEWEST` keys still share one when both leave out their `FEWEST - 1` commonest: the rarest of the
shared keys is in neither remainder. So a run is compared with those only that have one of its rarer keys, and keys that
no other run has are looked at once.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from pulumi_infercrane.guard.evidence.request_times import FEWEST, RequestTimes


class Neighbours:
    """By its number, the runs that may share requests with a run."""

    def __init__(self, runs: Sequence[RequestTimes]) -> None:
        holders = _in_several(runs)
        self._rare = [_rare_keys(run, holders) for run in runs]
        self._runs_with: dict[int, list[int]] = {}
        for number, keys in enumerate(self._rare):
            for key in keys:
                self._runs_with.setdefault(key, []).append(number)

    def of(self, number: int) -> Collection[int]:
        """Numbers of all runs of which `shared` may be more than 0; the run itself may be among them."""
        found: set[int] = set()
        for key in self._rare[number]:
            found.update(self._runs_with[key])
            if len(found) == len(self._rare):
                break
        return found


def _in_several(runs: Sequence[RequestTimes]) -> Counter[int]:
    """How many runs have a key, of the keys that more than one has."""
    large = [run.distinct for run in runs if len(run) >= FEWEST]
    seen: set[int] = set()
    several: set[int] = set()
    for keys in large if len(large) > 1 else ():
        several |= seen & keys
        seen |= keys
    return Counter(key for keys in large for key in keys & several) if several else Counter()


def _rare_keys(run: RequestTimes, holders: Counter[int]) -> list[int]:
    """Those of its keys that count, the rarest first; all runs order them alike."""
    if len(run) < FEWEST or not holders:
        return []
    keys = sorted(run.distinct & holders.keys(), key=lambda key: (holders[key], key))
    return keys[: max(0, len(keys) - FEWEST + 1)]
