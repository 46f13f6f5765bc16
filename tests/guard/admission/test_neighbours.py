"""Runs are compared only with those that may share requests with them; it comes to what comparing all pairs does."""

import random
from array import array
from collections import Counter
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.admission import copies
from pulumi_infercrane.guard.admission.neighbours import Neighbours
from pulumi_infercrane.guard.admission.pieces import Piece
from pulumi_infercrane.guard.evidence.request_times import FEWEST, RequestTimes, shared
from pulumi_infercrane.guard.reasons import Problem

FINE, ROUNDED = (array("d", [0.1234567]),), (array("d", [0.1]),)


def times(keys, columns=FINE):
    return RequestTimes(array("q", keys), columns)


def some_keys(source, earlier):
    """Of a run of its own, of one that lost or gained requests of earlier ones, or of one with coarse times."""
    own = [source.getrandbits(40) for _ in range(source.randint(0, 150))]
    shape = source.random()
    if shape < 0.3 or not earlier:
        return own
    if shape < 0.5:
        return [source.randint(0, 90) for _ in range(source.randint(0, 300))]
    taken = source.choice(earlier)
    kept = source.sample(taken, source.randint(0, len(taken)))
    return source.choice([kept, kept + own, taken + own, taken[: FEWEST - 1] + own, taken[:FEWEST] + own])


def some_piece(source, number, keys):
    measured = SimpleNamespace(part="primary", sha256=source.choice(["f", f"f{number}", f"f{number}"]), select=None)
    envelope = SimpleNamespace(
        kind=source.choice(["benchmark", "benchmark", "reliability"]),
        role=source.choice(["candidate", "baseline"]),
        evidence_id=f"e{number}",
        supersedes=[SimpleNamespace(evidence_id=f"e{source.randrange(40)}")],
        subject=SimpleNamespace(revision_digest=source.choice("123")),
        files=[measured],
        primary=measured,
    )
    item = SimpleNamespace(
        envelope=envelope if source.random() < 0.95 else None,
        evidence_id=f"e{number}",
        record=SimpleNamespace(failed=source.choice([0, 0, 3])),
        content=frozenset(source.sample(["c", f"c{number}", f"d{number}"], 2 if source.random() < 0.1 else 0)),
        times=times(keys, source.choice([FINE, ROUNDED])),
    )
    return Piece(item, Problem("stale", "old") if source.random() < 0.1 else None)


def some_pieces(seed):
    source = random.Random(seed)
    keys = []
    for _ in range(source.randint(2, 40)):
        keys.append(some_keys(source, keys))
    return [some_piece(source, number, one) for number, one in enumerate(keys)]


class Nobody:
    def __init__(self, runs):
        pass

    def of(self, number):
        return ()


def without_shared_pairwise(pieces, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(copies, "Neighbours", Nobody)
        own = copies.without_shared(pieces)
    problems = {}
    for (i, one), (j, other) in combinations(enumerate(own), 2):
        if (one.used or other.used) and copies._revision(one) != copies._revision(other):
            common = shared(one.item.times, other.item.times)
            if common:
                detail = f"{common} requests of this run are also offered for another revision, in another file"
                problems[i] = problems[j] = Problem("binding_conflict", detail)
    return [
        replace(piece, problem=problems[index]) if piece.used and index in problems else piece
        for index, piece in enumerate(own)
    ]


def once_pairwise(pieces):
    result, before = [], []
    for piece in pieces:
        counted = piece
        if piece.used and piece.envelope:
            counted = copies._counted(piece, piece.envelope, before)
            before.append(counted)
        result.append(counted)
    return result


def test_it_comes_to_what_comparing_all_pairs_does(monkeypatch):
    codes = Counter()
    for seed in range(150):
        pieces = some_pieces(seed)
        spoilt, counted = copies.without_shared(pieces), copies.once(pieces)
        assert spoilt == without_shared_pairwise(pieces, monkeypatch), seed
        assert counted == once_pairwise(pieces), seed
        assert copies.once(spoilt) == once_pairwise(spoilt), seed
        codes.update(piece.problem.code for piece in (*spoilt, *counted) if piece.problem)
    assert min(codes[code] for code in ("binding_conflict", "duplicate", "conflict")) > 50, codes


def test_all_that_share_requests_are_neighbours_and_few_others_are():
    source = random.Random(1)
    runs = [times([source.getrandbits(40) for _ in range(60)]) for _ in range(100)]
    common = [source.getrandbits(40) for _ in range(FEWEST)]
    runs[7], runs[70] = (times([*common, *run.keys]) for run in (runs[7], runs[70]))
    near = Neighbours(runs)
    assert [number for number in range(100) if set(near.of(number)) - {number}] == [7, 70]
    assert set(near.of(7)) == {7, 70}


@pytest.mark.parametrize("held", [FEWEST - 1, FEWEST])
def test_what_is_too_little_to_matter_makes_no_neighbours(held):
    """However many runs have it: a tool that tells few different times says nothing by them."""
    source = random.Random(2)
    coarse = list(range(held))
    runs = [times([*coarse, *(source.getrandbits(40) for _ in range(60))]) for _ in range(20)]
    assert [len(Neighbours(runs).of(number)) for number in range(20)] == [20 * (held == FEWEST)] * 20
