"""The simulation: its page shows the committed sweep, the sweep is of today's table, and its shares come out again."""

import math

import numpy as np
import pytest

from benchmarks.simulate import page, peer, sweep
from benchmarks.simulate.acceptance import cells
from benchmarks.simulate.situations import Load, Pairs, Run

DRAWS = 60
ONE_RUN = "TTFT p95 at the margin, one run: promoted"
AGAIN = [
    "20 requests, σ 0.3: rejected",
    "150 requests, TTFT × 1.3: promoted",
    "TTFT p95 × 1.15, 1000 requests, σ 0.5",
    "1 % errors, limit 1 %, 299 requests",
    "quality −2 points, 300 pairs, 5 % discordant",
    "TTFT × 1.3, 100 requests, σ 0.5",
    "1 % on both sides, 20 requests: rejected",
    "3 % against 1 %, 100 requests: promoted",
    "identical, 3 runs in pairs: rejected",
]


def test_the_page_shows_the_committed_sweep():
    text = page.PAGE.read_text()
    assert page.render(text, page.results()) == text


def test_the_sweep_is_of_this_table():
    shown = [(row["group"], row["metric"], row["goal"]) for row in page.results()]
    assert shown == [(cell.group, cell.name, cell.goal) for cell in cells()]


def test_every_goal_holds_but_the_one_the_page_explains():
    assert [row["metric"] for row in page.results() if row["holds"] is False] == [ONE_RUN]


@pytest.mark.parametrize("name", AGAIN)
def test_a_sample_comes_out_as_the_sweep_did(name):
    (cell,) = (cell for cell in cells() if cell.name == name)
    committed = next(row for row in page.results() if row["metric"] == name)
    (row,) = sweep.rows([cell], DRAWS / cell.draws)
    assert row.draws == DRAWS
    for share, before in ((row.ours, committed["ours"]), (row.peer, committed["peer"])):
        assert share == pytest.approx(before, abs=4 * math.sqrt(max(before * (1 - before), 0.005) / DRAWS))


def test_a_page_without_its_markers_is_refused():
    with pytest.raises(ValueError, match="markers of the table are missing"):
        page.render("# Simulation\n", [])


# --- the published rules of the Go project ----------------------------------------------------------------------


def run_of(n, slow=0, failed=0):
    """A run in which `slow` requests took twice as long and the first `failed` got no answer."""
    return Run(np.array([1.0] * (n - slow) + [2.0] * slow), np.arange(n) < failed)


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        (run_of(100), run_of(100), "promote"),
        (run_of(100), run_of(100, slow=5), "promote"),  # the nearest rank of p95 is the 95th
        (run_of(100), run_of(100, slow=6), "reject"),
        (run_of(100), run_of(100, failed=1), "promote"),  # strictly more than 1 % is too much
        (run_of(100), run_of(100, failed=2), "reject"),
        (run_of(19), run_of(19), "insufficient_evidence"),
        (run_of(5), run_of(5, slow=1), "reject"),  # before it asks whether there were enough
        (run_of(20, failed=20), run_of(20, failed=20), "insufficient_evidence"),
    ],
)
def test_load_by_the_published_rules(baseline, candidate, verdict):
    assert peer.of_load(Load(100), [baseline], [candidate]) == verdict


def test_only_the_newest_run_counts_there():
    good, bad = run_of(100), run_of(100, slow=50)
    assert peer.of_load(Load(100, runs=2), [good, good], [bad, good]) == "promote"


@pytest.mark.parametrize(
    ("lost", "n", "verdict"), [(0, 300, "promote"), (60, 300, "reject"), (8, 300, "insufficient_evidence")]
)
def test_quality_by_the_published_rules(lost, n, verdict):
    baseline = np.arange(n) < 0.8 * n
    assert peer.of_pairs(Pairs(n), baseline, baseline & (np.arange(n) >= lost)) == verdict


def test_fewer_than_thirty_pairs_are_too_few_there():
    right = np.ones(29, dtype=bool)
    assert peer.of_pairs(Pairs(29), right, right) == "insufficient_evidence"
