"""How long the garbage collector stops the interpreter, and every stream with it."""

import gc
from collections.abc import Callable, Mapping
from time import perf_counter

from pulumi_infercrane.router.histograms import Histogram


def watch_collector(pauses: Histogram) -> Callable[[], None]:
    """Book how long each collection takes, whichever thread it comes up in; what is returned ends that."""
    began = 0.0

    def note(phase: str, _info: Mapping[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = perf_counter()
        else:
            pauses.add(perf_counter() - began)

    gc.callbacks.append(note)
    return lambda: gc.callbacks.remove(note)
