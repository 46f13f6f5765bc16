"""A window file of a router gives a window or its problem, and whatever was read of it a decision on a canary step."""

import functools
import json
from collections.abc import Iterator
from typing import Any

from pulumi_infercrane.guard import canary_step, load_policy, read_window, signed_window
from tests.fuzz.forbidden import Watch
from tests.fuzz.target import Target
from tests.guard.rollout.conftest import NEW, OLD, POLICY, START, minutes, pair
from tests.guard.trust.conftest import entry, key_of

BUCKETS = {"edges": [0.1, 0.5], "counts": [20, 9, 1]}


def targets() -> Iterator[Target]:
    windows = [pair(20, failed=2), pair(30)]
    windows[1]["bindings"][0] |= {"ttft_s": BUCKETS, "e2e_s": BUCKETS}
    windows.append(signed_window(pair(20, lost="worker"), key_of("router")))
    yield Target("window", _run, tuple(json.dumps(one).encode() for one in windows))


def _run(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        loaded = read_window(data)
        assert (loaded.window is None) != (loaded.problem is None)
        canary_step(
            _policy(),
            [loaded],
            service="chat",
            stack="prod",
            candidate=NEW,
            baseline=OLD,
            weight=5,
            started_at=START,
            as_of=minutes(10),
        )
    return loaded.problem is None


@functools.cache
def _policy() -> Any:
    keys = [entry(key_of("router"), kinds=["window"])]
    return load_policy(POLICY + f"trust: {json.dumps({'require_signatures': False, 'keys': keys})}\n")
