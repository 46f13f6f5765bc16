"""What holds for every canonical record, whatever was in the file: see `guard/evidence/records.py`."""

import dataclasses
import math
from typing import Any

from pulumi_infercrane.guard.evidence.records import Benchmark, Quality, Record, Replay


def check_sane(record: Record) -> None:
    """No NaN, no negative count, no infinite figure but a quantile that failures made so.

    Raises:
        AssertionError: names the field.
    """
    _check_fields(record)
    if isinstance(record, Benchmark):
        _check_benchmark(record)
    elif isinstance(record, Quality):
        _check_quality(record)
    elif isinstance(record, Replay):
        for request in record.requests.values():
            _check_fields(request)
            assert request.similarity is None or 0 <= request.similarity <= 1, "similarity"


def _check_fields(record: Any) -> None:
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float):
                assert math.isfinite(number), field.name
            if type(number) is int:
                assert number >= 0, field.name


def _check_benchmark(record: Benchmark) -> None:
    assert record.attempted is None or record.failed is None or record.failed <= record.attempted
    for name, latency in record.latencies.items():
        assert all(value >= 0 for value in latency.quantiles.values()), name
        assert latency.mean is None or 0 <= latency.mean < math.inf, name
    for name, value in record.slo.items():
        assert 0 < value < math.inf, name
    if record.requests is not None:
        for figure in ("ttft_s", "tpot_s", "e2e_s"):
            assert all(value > 0 for value in record.requests.seconds(figure)), figure
        for column in (record.requests.in_tokens, record.requests.out_tokens):
            assert all(value != value or 0 <= value < math.inf for value in column), "tokens"


def _check_quality(record: Quality) -> None:
    scores = [answer.score for answer in record.answers.values()]
    scores += [record.summary.value] if record.summary else []
    assert all(0 <= score <= 1 for score in scores), "score"
    if record.summary:
        _check_fields(record.summary)
