"""Recorded requests answered by both sides, pair by pair: new errors, broken structure, other lengths and manners."""

import pytest

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [replay]\n"


def judged(folder, rule, head=HEAD):
    """The record of the only rule of a policy."""
    (record,) = folder.decide(policy=f"{head}rules:\n  - {{id: replay.{rule}}}\n").record["rules"]
    return record


def outcome(record):
    return record["outcome"], record["reasons"][0]


def both(folder, change=None, n=300, **changes):
    """`change` gets every line of the candidate with its index."""

    def applied(lines):
        for index, line in enumerate(lines):
            line.update((change(index) if change else None) or {})

    folder.replay("baseline", n)
    folder.replay("candidate", n, lines=applied, **changes)


def first(number, **fields):
    return lambda index: fields if index < number else {}


@pytest.mark.parametrize(
    "rule",
    ["new_error_fraction", "refused", "truncated", "output_length", "e2e_p50", "structured", "tool_calls"],
)
def test_equal_answers_pass(folder, rule):
    both(folder, n=1500)  # every fifth asks for a tool call
    record = judged(folder, rule)
    assert outcome(record) == ("pass", "within_margin")


@pytest.mark.parametrize(
    ("n", "failed", "expected"),
    [
        (298, 0, ("unknown", "insufficient_n")),
        (299, 0, ("pass", "within_margin")),
        (300, 7, ("fail", "margin_exceeded")),
        (1000, 4, ("pass", "within_margin")),
        (1000, 5, ("unknown", "interval_straddles")),
    ],
)
def test_new_errors(folder, n, failed, expected):
    both(folder, first(failed, outcome="http_error"), n)
    record = judged(folder, "new_error_fraction")
    assert outcome(record) == expected
    assert record["n"] == [n]


def test_an_error_of_both_sides_is_not_new(folder):
    broken = first(10, outcome="http_error")
    folder.replay("baseline", 400, lines=lambda lines: [line.update(broken(i)) for i, line in enumerate(lines)])
    folder.replay("candidate", 400, lines=lambda lines: [line.update(broken(i)) for i, line in enumerate(lines)])
    record = judged(folder, "new_error_fraction")
    assert (record["n"], record["outcome"]) == ([390], "pass")


def test_an_answer_that_is_missing_is_an_error(folder):
    folder.replay("baseline", 400)
    folder.replay("candidate", 400, lines=lambda lines: lines.__delitem__(slice(0, 19)))
    assert judged(folder, "new_error_fraction")["outcome"] == "fail"


def test_a_baseline_that_hardly_answered_compares_with_nothing(folder):
    folder.replay("candidate", 400)
    folder.replay("baseline", 400, lines=lambda lines: [line.update(outcome="http_error") for line in lines[:21]])
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "baseline_broken")


def test_files_that_hardly_overlap_cover_too_little(folder):
    folder.replay("baseline", 400, lines=lambda lines: lines.__delitem__(slice(0, 15)))
    folder.replay("candidate", 400, lines=lambda lines: lines.__delitem__(slice(-15, None)))
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "truncated")


@pytest.mark.parametrize(
    ("rule", "field", "worse"),
    [
        ("structured", "structured", False),
        ("tool_calls", "tool_calls", "sha256:" + "0" * 64),
        ("refused", "refused", True),
        ("truncated", "finish_reason", "length"),
    ],
)
def test_worse_manners_fail_and_failing_is_no_better(folder, rule, field, worse):
    def spoiled(index):
        return {field: worse} if index % 20 < 10 and index % (5 if rule == "tool_calls" else 4) == 0 else {}

    both(folder, spoiled)
    assert outcome(judged(folder, rule)) == ("fail", "margin_exceeded")
    both(folder, lambda index: {"outcome": "http_error"} if spoiled(index) else {})
    assert judged(folder, rule)["outcome"] == "fail"


def test_structure_is_judged_where_it_was_asked_for(folder):
    both(folder, n=300)
    record = judged(folder, "structured")
    assert (record["n"], outcome(record)) == ([75], ("unknown", "insufficient_n"))


@pytest.mark.parametrize("greedy", [True, False])
def test_a_call_where_the_baseline_answered_in_words_is_no_gain(folder, greedy):
    """Parity is lost both ways: a tool that is called unasked does what nobody wanted."""
    folder.replay(
        "baseline",
        header={"greedy": greedy},
        lines=lambda lines: [line.pop("tool_calls") for line in lines if int(line["id"]) % 10 == 0],
    )
    folder.replay("candidate", header={"greedy": greedy})
    record = judged(folder, "tool_calls")
    assert (record["n"], outcome(record)) == ([60], ("fail", "margin_exceeded"))


def test_a_figure_that_many_pairs_lack_is_not_judged_on_the_others(folder):
    folder.replay("baseline", 600)
    folder.replay("candidate", 600, lines=lambda lines: [line.pop("e2e_s") for line in lines[:200]])
    record = judged(folder, "e2e_p50")
    assert (outcome(record), record["detail"]) == (
        ("unknown", "no_evidence"),
        "400 of 600 pairs have the figure on both sides",
    )


@pytest.mark.parametrize(("rule", "field"), [("refused", "refused"), ("truncated", "finish_reason")])
@pytest.mark.parametrize("role", ["baseline", "candidate"])
def test_what_a_file_does_not_say_is_not_a_no(folder, rule, field, role):
    both(folder, n=600)
    folder.replay(role, 600, lines=lambda lines: lines[5].pop(field))
    record = judged(folder, rule)
    assert (outcome(record), record["detail"]) == (
        ("unknown", "no_evidence"),
        "the files do not say it of 1 of 1200 answers",
    )


def test_sampled_calls_need_not_be_the_same_calls(folder):
    other = {"tool_calls": "sha256:" + "0" * 64}
    for role in ("baseline", "candidate"):
        folder.replay(
            role,
            1500,
            header={"greedy": False},
            lines=lambda lines, role=role: [
                line.update(other) for line in lines if role == "candidate" and "tool_calls" in line
            ],
        )
    assert judged(folder, "tool_calls")["outcome"] == "pass"
    assert judged(folder, "new_error_fraction")["notes"][-1] == "same text in 1500 of 1500 pairs, sampled"


def test_other_words_alone_decide_nothing(folder):
    both(folder, lambda index: {"text_sha256": f"{index:064x}"}, n=400)
    record = judged(folder, "new_error_fraction")
    assert (record["outcome"], record["notes"][-1]) == ("pass", "same text in 0 of 400 pairs, greedy")


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.0, "pass"),
        (1.2, "pass"),
        (1.5, "fail"),
        (0.85, "pass"),
        (0.5, "fail"),
    ],
)
def test_answers_may_grow_neither_much_longer_nor_much_shorter(folder, factor, expected):
    both(folder, lambda index: {"out_tokens": round(factor * (40 + index % 7))})
    record = judged(folder, "output_length")
    assert (record["outcome"], record["method"]) == (expected, "paired_ratio")
    assert record["notes"][0] == "band 0.8 to 1.25"


@pytest.mark.parametrize("factor", [1.5, 0.5])
def test_failures_bring_no_length_into_the_band(folder, factor):
    def half_failed(index):
        return {"outcome": "http_error"} if index % 2 else {"out_tokens": round(factor * 46)}

    both(folder, half_failed, n=700)
    record = judged(folder, "output_length")
    assert (record["outcome"], record["n"]) == ("unknown", [350])


@pytest.mark.parametrize(("factor", "expected"), [(0.5, "pass"), (1.05, "pass"), (1.2, "fail")])
def test_time_to_the_end_is_compared_pair_by_pair(folder, factor, expected):
    both(folder, lambda index: {"e2e_s": round(factor * (0.5 + index % 11 / 50), 6)})
    record = judged(folder, "e2e_p50")
    assert (record["outcome"], record["class"], record["limit"]) == (expected, "S", 1.1)


def test_failures_are_slow(folder):
    both(folder, lambda index: {"outcome": "http_error"} if index % 3 else {"e2e_s": 0.1}, n=900)
    record = judged(folder, "e2e_p50")
    assert (record["outcome"], record["hi"]) == ("fail", "inf")


def test_figures_nobody_wrote_are_not_judged(folder):
    for role in ("baseline", "candidate"):
        folder.replay(role, lines=lambda lines: [line.pop("e2e_s") for line in lines])
    assert outcome(judged(folder, "e2e_p50")) == ("unknown", "insufficient_n")


def test_similarity_is_judged_only_where_it_was_measured(folder):
    both(folder)
    assert outcome(judged(folder, "similarity")) == ("unknown", "no_evidence")
    for value, expected in ((0.97, "pass"), (0.7, "fail")):
        both(folder, lambda index, value=value: {"similarity": value}, header={"similarity": "rouge-l"})
        assert judged(folder, "similarity")["outcome"] == expected
    both(folder, lambda index: {"similarity": 1.0} if index % 3 else {}, header={"similarity": "rouge-l"})
    record = judged(folder, "similarity")
    assert record["outcome"] == "fail"  # what was not compared is not similar
    assert record["estimate"] == pytest.approx(-1 / 3, abs=0.01)
    assert record["notes"]  # how many answers were equal to the letter


@pytest.mark.parametrize("header", [{"workload_digest": "sha256:" + "1" * 64}, {"greedy": False}])
def test_other_requests_are_not_compared(folder, header):
    both(folder, header=header)
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "not_comparable")


def test_another_path_is_not_compared(folder):
    folder.replay("baseline")
    folder.replay("candidate", change=lambda e: e["scenario"].update(path="gateway"))
    assert outcome(judged(folder, "e2e_p50")) == ("unknown", "not_comparable")


def passes(folder, failed):
    folder.replay("baseline", 600)
    for ordinal, number in enumerate(failed, start=1):
        run = {"group": "g", "ordinal": ordinal, "of": len(failed)}
        folder.replay(
            "candidate",
            600,
            name=f"pass-{ordinal}",
            change=lambda e, run=run: e.update(run=run),
            lines=lambda lines, n=number, o=ordinal: [
                line.update({"ttft_s": 0.01 * o} | ({"outcome": "http_error"} if i < n else {}))
                for i, line in enumerate(lines)
            ],
        )


def test_a_request_that_failed_in_one_pass_is_a_new_error(folder):
    passes(folder, [0, 2])
    record = judged(folder, "new_error_fraction")
    assert record["estimate"] == pytest.approx(2 / 600)


def test_passes_that_differ_beyond_noise_conflict(folder):
    passes(folder, [0, 60])
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "conflict")


def test_a_short_replay_is_truncated(folder):
    both(folder)
    window = {"started_at": "2026-11-30T04:01:01Z", "ended_at": "2026-11-30T04:02:00Z"}
    folder.replay("candidate", header=dict(window), change=lambda e: e.update(window=window))
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "truncated")


def test_a_shorter_replay_of_the_same_requests_covers_too_little(folder):
    folder.replay("baseline", 400)
    folder.replay("candidate", 300)
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "truncated")


def test_another_version_of_the_tool_is_not_compared(folder, monkeypatch):
    monkeypatch.setattr("pulumi_infercrane.guard.evidence.readers.infercrane.VERSIONS", ("0.1", "0.2"))
    both(folder)
    folder.replay("candidate", change=lambda e: e["files"][0].update(tool_version="0.2"))
    assert outcome(judged(folder, "new_error_fraction")) == ("unknown", "version_mismatch")


@pytest.mark.parametrize(("lost", "expected"), [(4, "unknown"), (5, "fail")])
def test_a_fail_also_needs_significant_losses(folder, lost, expected):
    both(folder, lambda index: {"refused": True} if index < lost else {}, n=32)
    record = judged(folder, "refused, margin: 0.0")
    assert record["lo"] > 0  # the interval alone would fail it
    assert record["outcome"] == expected
