"""What a revision did in traffic windows, as the rules for benchmarks judge it."""

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

from pulumi_infercrane.guard.evidence.records import Benchmark, Column, Requests
from pulumi_infercrane.guard.evidence.window import FIGURES, Binding, Buckets


def benchmark_of(bindings: Sequence[Binding], slo: Mapping[str, float]) -> Benchmark:
    """What one revision did in several windows, as the rules for benchmarks judge it.

    Attempted are the requests a model could answer: what clients did wrong or gave up neither fails nor dilutes. Where
    every window has values and not buckets, every request is kept; `good` is known where all windows can tell.
    """
    late = [binding.late(slo) if slo else None for binding in bindings]
    known = [one for one in late if one is not None]
    completed = sum(binding.completed for binding in bindings)
    return Benchmark(
        attempted=sum(binding.judged for binding in bindings),
        failed=sum(binding.failed for binding in bindings),
        errors=_errors(bindings),
        load_model="open",
        requests=_requests(bindings),
        good=completed - sum(known) if bindings and len(known) == len(bindings) else None,
        slo=dict(slo),
    )


def _errors(bindings: Sequence[Binding]) -> dict[str, int]:
    errors: Counter[str] = Counter()
    for binding in bindings:
        errors.update({**binding.failed_by_class, "cut_stream": binding.cut_streams})
    return {name: n for name, n in sorted(errors.items()) if n}


def _requests(bindings: Sequence[Binding]) -> Requests | None:
    """Completed requests first, then one row without figures for each failed one."""
    failed = sum(binding.failed for binding in bindings)
    columns = {name: array("d") for name in FIGURES}
    for binding in bindings:
        for name, column in columns.items():
            figure = binding.figures.get(name) or _nothing(binding.completed)
            if isinstance(figure, Buckets):
                return None
            column.extend(figure)
    completed = len(columns["e2e_s"])
    for column in columns.values():
        column.extend(_nothing(failed))
    ok = b"\1" * completed + b"\0" * failed
    return Requests(ok, **columns, in_tokens=_nothing(len(ok)), out_tokens=_nothing(len(ok)))


def _nothing(n: int) -> Column:
    return array("d", [math.nan]) * n
