"""Dealing the requests or answers of two runs anew to two sides, as if chance had given them to the other one.

Requests go in blocks of neighbours, which share what the machine was doing; of an item both answers change sides or
none. What goes where is derived from a key by hash.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

from pulumi_infercrane.guard.evidence.records import Benchmark, Quality, Record, Requests

USUAL_BLOCK = 20
FEWEST_BLOCKS, MOST_BLOCKS = 10, 200
"""Of a run: enough to deal in many ways, and no more."""


def can_be_dealt(record: Record) -> bool:
    """Whether a record holds its single requests or answers."""
    return bool((isinstance(record, Benchmark) and record.requests) or (isinstance(record, Quality) and record.answers))


def deal(one: Record, other: Record, key: str) -> tuple[Record, Record]:
    """Two records about as large as the two given, together holding the same requests or answers.

    Raises:
        TypeError: when they are of different kinds, or `can_be_dealt` is not true of them.
    """
    if isinstance(one, Benchmark) and isinstance(other, Benchmark) and one.requests and other.requests:
        first, second = _deal_requests(one.requests, other.requests, key)
        return _with_requests(one, first), _with_requests(other, second)
    if isinstance(one, Quality) and isinstance(other, Quality):
        swapped = {item for item in one.answers.keys() & other.answers.keys() if _draw(key, item)[0] % 2}
        return _with_answers(one, other, swapped), _with_answers(other, one, swapped)
    raise TypeError(f"a {type(one).__name__} and a {type(other).__name__} cannot be dealt anew")


def _deal_requests(one: Requests, other: Requests, key: str) -> tuple[Requests, Requests]:
    blocks = [*_blocks(one), *_blocks(other)]
    order = sorted(range(len(blocks)), key=lambda index: _draw(key, str(index)))
    half = len(blocks) // 2
    return _joined([blocks[i] for i in sorted(order[:half])]), _joined([blocks[i] for i in sorted(order[half:])])


def _blocks(requests: Requests) -> Iterator[Requests]:
    """Of about one size, so that the sides become as large as the runs were."""
    n = len(requests)
    number = min(n, max(FEWEST_BLOCKS, min(MOST_BLOCKS, math.ceil(n / USUAL_BLOCK))))
    for start, end in pairwise(n * index // number for index in range(number + 1)):
        yield Requests(*(column[start:end] for column in _columns(requests)))


def _joined(blocks: Sequence[Requests]) -> Requests:
    first, *rest = ([*_columns(block)] for block in blocks)
    for columns in rest:
        first = [joined + column for joined, column in zip(first, columns, strict=True)]
    return Requests(*first)


def _columns(requests: Requests) -> Iterator[Any]:
    return (getattr(requests, field.name) for field in fields(requests))


def _with_requests(run: Benchmark, requests: Requests) -> Benchmark:
    return replace(run, attempted=len(requests), failed=requests.failed, requests=requests)


def _with_answers(own: Quality, others: Quality, swapped: set[str]) -> Quality:
    answers = {item: (others if item in swapped else own).answers[item] for item in own.answers}
    return replace(own, answers=answers)


def _draw(key: str, name: str) -> bytes:
    return hashlib.sha256(f"{key} {name}".encode()).digest()
