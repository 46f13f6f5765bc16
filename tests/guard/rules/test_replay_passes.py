"""Replays in several passes, answers of a sort, and texts: what agrees, what contradicts, what is left out."""

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


def repeated(folder, role, changes, n=600, **about):
    """One pass for each of `changes`, which get every line with its index."""
    for ordinal, change in enumerate(changes, start=1):

        def applied(lines, change=change, ordinal=ordinal):
            for index, line in enumerate(lines):
                line.update({"ttft_s": 0.01 * ordinal} | change(index))

        run = {"group": "g", "ordinal": ordinal, "of": len(changes)}
        folder.replay(
            role, n, name=f"{role}-{ordinal}", change=lambda e, run=run: e.update(run=run), lines=applied, **about
        )


@pytest.mark.parametrize("role", ["baseline", "candidate"])
@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ("refused", {"refused": True}),
        ("truncated", {"finish_reason": "length"}),
        ("output_length", {"out_tokens": 400}),
        ("e2e_p50", {"e2e_s": 9.0}),
    ],
)
def test_passes_conflict_in_what_the_rule_is_about(folder, role, rule, other):
    other_role = "candidate" if role == "baseline" else "baseline"
    repeated(folder, other_role, [lambda index: {}])
    repeated(folder, role, [lambda index: {}, lambda index: other if index % 5 else {}])
    assert outcome(judged(folder, f"{rule}, margin: 0.9")) == ("unknown", "conflict")
    assert judged(folder, "structured, min_pass: 100")["reasons"] != ["conflict"]


def test_passes_that_agree_do_not_conflict(folder):
    for role in ("baseline", "candidate"):
        repeated(folder, role, [lambda index: {}, lambda index: {}], n=1500)
    for rule in ("refused", "structured", "tool_calls", "output_length", "e2e_p50", "new_error_fraction"):
        assert judged(folder, rule)["outcome"] == "pass"


def test_passes_with_few_figures_contradict_nobody(folder):
    """Of 29 answers with a duration no interval is formed, of 30 there is one."""

    def timed(number, seconds):
        return lambda index: {"e2e_s": seconds if index < number else None}

    repeated(folder, "baseline", [lambda index: {}])
    for number, expected in ((29, ["insufficient_n"]), (30, ["conflict"])):
        for ordinal, change in enumerate((timed(300, 0.5), timed(number, 9.0)), start=1):

            def applied(lines, change=change, ordinal=ordinal):
                for index, line in enumerate(lines):
                    line.update({"ttft_s": 0.01 * ordinal} | change(index))
                    if line["e2e_s"] is None:
                        del line["e2e_s"]

            run = {"group": "g", "ordinal": ordinal, "of": 2}
            folder.replay(
                "candidate", 600, name=f"pass-{ordinal}", change=lambda e, r=run: e.update(run=r), lines=applied
            )
        assert judged(folder, "e2e_p50, margin: 4")["reasons"] == expected


def test_figures_are_averaged_over_passes_and_one_failure_is_infinite(folder):
    repeated(folder, "baseline", [lambda index: {"e2e_s": 1.0}])
    repeated(folder, "candidate", [lambda index: {"e2e_s": 1.0}, lambda index: {"e2e_s": 1.1}])
    record = judged(folder, "e2e_p50, min_compute: 601")
    assert record["reasons"] == ["insufficient_n"]
    assert judged(folder, "e2e_p50, margin: 0.5, min_compute: 600")["estimate"] == pytest.approx(1.05)


@pytest.mark.parametrize("names", [("rouge-l", "bleu"), ("rouge-l", None)])
def test_similarity_must_be_measured_in_one_way(folder, names):
    folder.replay("baseline")
    for ordinal, name in enumerate(names, start=1):
        run = {"group": "g", "ordinal": ordinal, "of": 2}
        header = {"similarity": name} if name else {}

        def alike(lines, ordinal=ordinal, name=name):
            for line in lines:
                line.update({"ttft_s": 0.01 * ordinal} | ({"similarity": 1.0} if name else {}))

        folder.replay(
            "candidate", name=f"p{ordinal}", header=header, change=lambda e, r=run: e.update(run=r), lines=alike
        )
    expected = ("unknown", "not_comparable" if all(names) else "no_evidence")
    assert outcome(judged(folder, "similarity")) == expected


def test_a_call_where_the_baseline_made_none_is_parity_lost(folder):
    call = {"tool_calls": "sha256:" + "1" * 64}
    both(folder, lambda index: call if index % 5 else {}, n=1500)
    record = judged(folder, "tool_calls")
    assert (record["outcome"], record["estimate"] < -0.7) == ("fail", True)


def test_greedily_another_call_is_not_the_call(folder):
    both(folder, lambda index: {"tool_calls": "sha256:" + "1" * 64} if index % 5 == 0 else {}, n=1500)
    assert judged(folder, "tool_calls")["outcome"] == "fail"


def test_texts_that_were_not_kept_are_not_counted(folder):
    for role in ("baseline", "candidate"):
        folder.replay(role, 400, lines=lambda lines: [line.pop("text_sha256") for line in lines[:100]])
    assert judged(folder, "new_error_fraction")["notes"] == ["same text in 300 of 300 pairs, greedy"]
    assert "notes" not in judged(folder, "refused")


@pytest.mark.parametrize(("missing", "reason"), [(20, "within_margin"), (21, "truncated")])
def test_nineteen_of_twenty_requests_must_be_in_both_files(folder, missing, reason):
    folder.replay("baseline", 400, lines=lambda lines: lines.__delitem__(slice(400 - missing, None)))
    folder.replay("candidate", 400)
    assert judged(folder, "new_error_fraction")["reasons"] == [reason]


@pytest.mark.parametrize(("failed", "reason"), [(20, "within_margin"), (21, "baseline_broken")])
def test_the_baseline_must_have_answered_nineteen_of_twenty(folder, failed, reason):
    def broken(lines):
        for line in lines[:failed]:
            line.update(outcome="http_error")

    folder.replay("baseline", 400, lines=broken)
    folder.replay("candidate", 400)
    assert judged(folder, "new_error_fraction")["reasons"] == [reason]


def test_texts_of_one_side_alone_are_not_compared(folder):
    for silent in ("baseline", "candidate"):
        for role in ("baseline", "candidate"):
            gone = 400 if role == silent else 0
            folder.replay(role, 400, lines=lambda lines, gone=gone: [line.pop("text_sha256") for line in lines[:gone]])
        assert "notes" not in judged(folder, "new_error_fraction")


def test_without_a_baseline_nothing_is_compared(folder):
    folder.replay("candidate")
    for rule in ("new_error_fraction", "e2e_p50"):
        assert outcome(judged(folder, rule)) == ("unknown", "no_evidence")


def test_few_answers_of_a_sort_form_no_interval(folder):
    both(folder, n=100)
    record = judged(folder, "structured")
    assert record["detail"] == "25 of 300 pairs, no interval is formed below 30"
    assert judged(folder, "new_error_fraction")["needs"] == "about 199 more pairs needed"


@pytest.mark.parametrize(
    ("rule", "worst"), [("structured", -75 / 77), ("refused", 300 / 302), ("truncated", 300 / 302)]
)
def test_a_failed_answer_is_the_worst_there_is(folder, rule, worst):
    both(folder, lambda index: {"outcome": "http_error"})
    assert judged(folder, rule)["estimate"] == pytest.approx(worst)


def test_a_pass_that_failed_makes_the_mean_of_all_passes_infinite(folder):
    repeated(folder, "baseline", [lambda index: {}])
    failing = [lambda index: {"outcome": "http_error"} if index % 50 == 0 else {}, lambda index: {}]
    repeated(folder, "candidate", failing)
    record = judged(folder, "e2e_p50, margin: 0.5")
    assert (record["n"], record["detail"].endswith("588 pairs, 12 more not answered by the candidate")) == ([588], True)


@pytest.mark.parametrize("empty", [0, None])
def test_what_the_baseline_had_no_length_of_is_left_out(folder, empty):
    def hushed(lines):
        for line in lines[:20]:
            line["out_tokens"] = empty
            if empty is None:
                del line["out_tokens"]

    folder.replay("baseline", 400, lines=hushed)
    folder.replay("candidate", 400)
    record = judged(folder, "output_length")
    assert (record["outcome"], record["n"]) == ("pass", [380])


def test_passes_that_differ_away_from_the_median_do_not_conflict(folder):
    longer = lambda index: {"out_tokens": 400 if index % 20 < 9 else 40}  # noqa: E731
    repeated(folder, "baseline", [lambda index: {"out_tokens": 40}])
    repeated(folder, "candidate", [lambda index: {"out_tokens": 40}, longer])
    assert judged(folder, "output_length, margin: 4")["reasons"] == ["within_margin"]


def test_passes_conflict_among_the_answers_the_rule_is_about(folder):
    """One in ten structures broke, which is one in forty answers."""
    repeated(folder, "baseline", [lambda index: {}])
    repeated(folder, "candidate", [lambda index: {}, lambda index: {"structured": False} if index % 40 == 0 else {}])
    assert judged(folder, "structured, min_pass: 100")["reasons"] == ["conflict"]


def test_a_request_asks_for_structure_when_one_pass_of_the_baseline_says_so(folder):
    def plain(lines):
        lines[0]["ttft_s"] = 0.01
        for line in lines:
            line.pop("structured", None)

    for ordinal, change in ((1, plain), (2, None)):
        run = {"group": "g", "ordinal": ordinal, "of": 2}
        folder.replay("baseline", 600, name=f"b{ordinal}", change=lambda e, run=run: e.update(run=run), lines=change)
    folder.replay("candidate", 600)
    assert outcome(judged(folder, "structured, min_pass: 100")) == ("pass", "within_margin")


def test_passes_without_an_answer_the_rule_is_about_contradict_nobody(folder):
    def plain(lines):
        for line in lines:
            line.pop("structured", None)

    for role in ("baseline", "candidate"):
        for ordinal in (1, 2):
            run = {"group": "g", "ordinal": ordinal, "of": 2}

            def applied(lines, ordinal=ordinal):
                plain(lines)
                lines[0]["ttft_s"] = 0.01 * ordinal

            folder.replay(role, name=f"{role}-{ordinal}", change=lambda e, run=run: e.update(run=run), lines=applied)
    assert outcome(judged(folder, "structured")) == ("unknown", "insufficient_n")
