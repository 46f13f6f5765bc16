"""Cost per what was produced: at one operating point, from dated prices, and never cheaper by producing nothing."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.judging.rule import Member, Settings
from pulumi_infercrane.guard.rules.cost import KIND
from pulumi_infercrane.guard.times import format_time

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [cost]\n"
PER_TOKENS, PER_GOOD = "per_million_output_tokens", "per_good_request"
HOUR = {"started_at": "2026-11-30T03:02:00Z", "ended_at": "2026-11-30T04:02:00Z"}


def judged(folder, rule=PER_TOKENS, head=HEAD, **asked):
    """The record of the only rule of a policy."""
    (record,) = folder.decide(policy=f"{head}rules:\n  - {{id: cost.{rule}}}\n", **asked).record["rules"]
    return record


def outcome(record):
    return record["outcome"], record["reasons"][0]


def both(folder, candidate=2.0, **changes):
    folder.cost("baseline")
    folder.cost("candidate", candidate, **changes)


def windows(folder, role, prices):
    """Windows measured in turn with those of the other side."""
    for ordinal, price in enumerate(prices, start=1):
        run = {"group": "g", "ordinal": ordinal, "of": len(prices)}
        folder.cost(role, price, name=f"{role}-{ordinal}", change=lambda e, run=run: e.update(run=run))


def test_the_figure_is_money_over_tokens(folder):
    both(folder)
    record = judged(folder, f"max_{PER_TOKENS}, limit: 10")
    # 2 USD/h · 120 s / 3600 s/h over 150 · 48 tokens
    assert record["estimate"] == pytest.approx(2 / 30 / 7200 * 1e6, rel=1e-8)
    assert outcome(record) == ("pass", "within_margin")
    assert judged(folder, f"max_{PER_GOOD}, limit: 10")["estimate"] == pytest.approx(2 / 30 / 150, rel=1e-6)


@pytest.mark.parametrize(("priced", "admissible"), [(1, False), (7, False), (12, False), (8, True), (16, True)])
def test_a_file_prices_the_accelerators_of_its_revision(folder, priced, admissible):
    folder.subjects["candidate"]["accelerator"]["count"] = 8
    folder.reseal()
    folder.cost("candidate", header={"gpu_count": priced})
    code = judged(folder, f"max_{PER_TOKENS}, limit: 1000")["reasons"][0]
    assert code == ("within_margin" if admissible else "binding_conflict")


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (2.0, ("pass", "within_margin")),
        (2.1, ("pass", "within_margin")),
        (2.11, ("unknown", "summary_only")),
        (2.39, ("unknown", "summary_only")),
        (2.4, ("fail", "margin_exceeded")),
    ],
)
@pytest.mark.parametrize("rule", [PER_TOKENS, PER_GOOD])
def test_one_window_is_judged_with_a_guard_band(folder, price, expected, rule):
    both(folder, price)
    record = judged(folder, rule)
    assert outcome(record) == expected
    assert (record["method"], record["class"]) == ("guard_band", "S")


def test_three_windows_in_turn_are_repeated_runs(folder):
    windows(folder, "baseline", [2.0, 2.02, 1.98])
    windows(folder, "candidate", [2.14, 2.16, 2.12])
    record = judged(folder)
    assert (record["method"], record["n"], record["outcome"]) == ("repeated_runs", [3, 3], "pass")
    assert record["estimate"] == pytest.approx(1.07, abs=0.001)


def test_windows_that_differ_among_themselves_settle_nothing(folder):
    windows(folder, "baseline", [2.0, 2.02, 1.98])
    windows(folder, "candidate", [1.6, 2.0, 2.6])
    assert outcome(judged(folder)) == ("unknown", "interval_straddles")


def test_windows_that_are_not_as_many_on_both_sides_are_taken_together(folder):
    folder.cost("baseline")
    windows(folder, "candidate", [2.0, 2.1, 2.2])
    record = judged(folder)
    assert (record["method"], record["n"]) == ("guard_band", [1, 3])


def test_windows_are_paired_in_the_order_they_were_measured_in(folder):
    windows(folder, "baseline", [2.0, 2.5, 3.0])
    windows(folder, "candidate", [2.0, 2.5, 3.0])
    for ordinal, price in enumerate((2.02, 2.52, 3.05), start=1):
        run = {"group": "g", "ordinal": ordinal, "of": 3}
        folder.cost("candidate", price, name=f"candidate-{ordinal}", change=lambda e, run=run: e.update(run=run))
    record = judged(folder)
    assert record["hi"] - record["lo"] < 0.02  # what changed from window to window changed on both sides


def test_more_windows_may_be_required(folder):
    both(folder)
    assert outcome(judged(folder, f"{PER_TOKENS}, min_pass: 2")) == ("unknown", "summary_only")


def test_every_cost_is_in_the_figure(folder):
    both(folder, header={"other_cost": 2 / 30})
    assert judged(folder)["estimate"] == 2


def test_a_failed_request_costs_and_produces_nothing(folder):
    both(folder, lines=lambda lines: [line.update(outcome="http_error") for line in lines[:75]])
    assert judged(folder)["estimate"] == 2


def test_a_request_that_was_no_good_costs_too(folder):
    both(folder, lines=lambda lines: [line.update(good=False) for line in lines[:75]])
    assert judged(folder, PER_GOOD)["outcome"] == "fail"
    assert judged(folder, PER_TOKENS)["outcome"] == "pass"


def test_money_for_nothing_fails_every_limit(folder):
    both(folder, lines=lambda lines: [line.update(outcome="http_error") for line in lines])
    for rule in (PER_TOKENS, PER_GOOD, f"max_{PER_TOKENS}, limit: 1000000"):
        record = judged(folder, rule)
        assert (record["outcome"], record["estimate"]) == ("fail", "inf")


def test_a_baseline_that_produced_nothing_compares_with_nothing(folder):
    folder.cost("candidate")
    folder.cost("baseline", lines=lambda lines: [line.update(outcome="http_error") for line in lines])
    assert outcome(judged(folder)) == ("unknown", "baseline_broken")


def test_a_cap_needs_no_baseline_and_its_limit_must_be_given(folder):
    folder.cost("candidate")
    assert judged(folder, f"max_{PER_GOOD}, limit: 0.001")["outcome"] == "pass"
    record = judged(folder, f"max_{PER_GOOD}, limit: 0.0004")
    assert (record["class"], *outcome(record)) == ("H", "fail", "limit_exceeded")


def test_requests_nobody_called_good_are_not_judged(folder):
    both(folder, lines=lambda lines: lines[0].pop("good"))
    assert outcome(judged(folder, PER_GOOD)) == ("unknown", "no_evidence")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"price_per_gpu_hour": 0}, "cost_incomplete"),
        ({"gpu_count": 0}, "cost_incomplete"),
        ({"price_date": "2026-10-31"}, "stale"),
    ],
)
def test_a_cost_that_is_not_whole_is_not_judged(folder, header, reason):
    both(folder, header=header)
    assert outcome(judged(folder)) == ("unknown", reason)


@pytest.mark.parametrize(
    ("changes", "hours", "problem"),
    [
        ({"price_source": "", "price_date": ""}, 1, None),
        ({"price_source": "", "price_date": ""}, 0.99, "truncated"),
        ({"price_source": "list", "price_date": ""}, 1, "cost_incomplete"),
        ({"price_source": "", "price_date": "last week"}, 1, "cost_incomplete"),
        ({"gpu_cost": None}, 1, "cost_incomplete"),
        ({"gpu_cost": -1.0}, 1, "cost_incomplete"),
        ({"currency": ""}, 1, "cost_incomplete"),
    ],
)
def test_what_other_tools_leave_out(folder, changes, hours, problem):
    """Metered costs have no price list, and are charged in pieces: they need an hour."""
    folder.cost("candidate")
    (item,) = load_evidence(folder.root).items
    ended = item.envelope.window.ended
    started = format_time(ended - timedelta(hours=hours))
    window = item.envelope.window.model_copy(update={"started_at": started})
    member = Member(item.envelope.model_copy(update={"window": window}), replace(item.record, **changes))
    found = KIND.check(member, Settings(alpha=0.05, min_duration_s=60))
    assert (found and found.code) == problem


@pytest.mark.parametrize(("accelerators", "spend", "whole"), [(0, 1.5, True), (0, 0.0, False), (1, 1.5, False)])
def test_a_service_without_accelerators_costs_what_it_pays_for(folder, subject_of, accelerators, spend, whole):
    accelerator = {"vendor": "none", "sku": "none", "count": accelerators}
    folder.subjects["candidate"] = subject_of("r2", accelerator=accelerator)
    folder.cost("candidate", header={"gpu_count": 0, "other_cost": spend})
    assert (judged(folder, f"max_{PER_GOOD}, limit: 1")["outcome"] == "pass") is whole


def test_the_policy_may_name_the_currency(folder):
    both(folder)
    assert judged(folder, head=HEAD + "currency: USD\n")["outcome"] == "pass"
    assert outcome(judged(folder, head=HEAD + "currency: EUR\n")) == ("unknown", "cost_incomplete")


def test_a_decision_ends_with_the_prices_it_rests_on(folder):
    both(folder, header={"price_date": "2026-11-02"})
    decision = folder.decide(policy=HEAD + "rules: [{id: cost.per_good_request}]\n")
    assert (decision.verdict, decision.expires_at) == ("promote", "2026-12-02T00:00:00Z")


@pytest.mark.parametrize(
    "scenario", [{"concurrency": 4}, {"concurrency": None}, {"dataset_digest": "sha256:" + "e" * 64}, {"replicas": 2}]
)
def test_another_operating_point_is_not_cheaper_but_different(folder, scenario):
    def moved(envelope):
        changed = envelope["scenario"] | scenario
        envelope["scenario"] = {key: value for key, value in changed.items() if value is not None}

    both(folder, change=moved)
    assert outcome(judged(folder)) == ("unknown", "not_comparable")


@pytest.mark.parametrize("header", [{"currency": "EUR"}, {"idle_included": True}])
def test_another_account_is_not_compared(folder, header):
    both(folder, header=header)
    assert outcome(judged(folder)) == ("unknown", "not_comparable")


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ({"price_date": "2026-11-19"}, "list of 2026-11-19 against list of 2026-11-20"),
        ({"price_source": "spot"}, "spot of 2026-11-20 against list of 2026-11-20"),
    ],
)
def test_sides_priced_from_two_lists_are_compared_with_a_note(folder, header, note):
    both(folder, header=header)
    record = judged(folder)
    assert (outcome(record), record["notes"]) == (("pass", "within_margin"), [f"other prices: {note}"])


def test_the_lists_of_one_side_are_named_in_their_order(folder):
    folder.cost("baseline")
    for source in ("spot", "list", "contract", "reserved"):
        folder.cost("candidate", name=source, header={"price_source": source})
    named = " and ".join(f"{source} of 2026-11-20" for source in ("contract", "list", "reserved", "spot"))
    assert judged(folder)["notes"] == [f"other prices: {named} against list of 2026-11-20"]


def test_a_metered_side_against_a_priced_one_is_noted(folder, recorded):
    both(folder, header={"duration_s": 3600.0} | HOUR, change=lambda envelope: envelope.update(window=HOUR))
    record = recorded(candidate={"price_source": "", "price_date": ""})
    assert record["notes"] == ["other prices: metered against list of 2026-11-20"]


def test_windows_priced_from_the_same_lists_need_no_note(folder):
    for role in ("baseline", "candidate"):
        for ordinal, source in ((1, "list"), (2, "spot"), (3, "list")):
            run = {"group": "g", "ordinal": ordinal, "of": 3}
            name, header = f"{role}-{ordinal}", {"price_source": source}
            folder.cost(role, 2 + ordinal / 100, name=name, header=header, change=lambda e, run=run: e.update(run=run))
    record = judged(folder)
    assert (record["method"], record.get("notes")) == ("repeated_runs", None)


def test_an_operating_point_nobody_declared_is_none(folder):
    for role in ("baseline", "candidate"):
        folder.cost(role, change=lambda e: e["scenario"].pop("concurrency"))
    assert outcome(judged(folder)) == ("unknown", "not_comparable")


# --- windows as other tools record them -------------------------------------------------------------------------


@pytest.fixture
def recorded(folder):
    """`recorded(rule, candidate={…})`: the rule's record when the reader had found these figures on one side."""

    def judge(rule=PER_TOKENS, head=HEAD, **sides):
        if not folder.root.exists():
            both(folder)
        found = load_evidence(folder.root)
        changes = [sides.get(item.envelope.role, {}) for item in found.items]
        items = [
            replace(item, record=replace(item.record, **change))
            for item, change in zip(found.items, changes, strict=True)
        ]
        return judged(folder, rule, head, evidence=replace(found, items=tuple(items)))

    return judge


@pytest.mark.parametrize("role", ["baseline", "candidate"])
def test_what_one_side_did_not_count_is_no_evidence(recorded, role):
    assert outcome(recorded(**{role: {"output_tokens": None}})) == ("unknown", "no_evidence")


def test_of_several_windows_each_must_have_counted(folder):
    folder.cost("candidate", name="counted")
    folder.cost("candidate", name="silent", lines=lambda lines: lines[0].pop("good"))
    assert outcome(judged(folder, f"max_{PER_GOOD}, limit: 1")) == ("unknown", "no_evidence")


@pytest.mark.parametrize("silent", [False, True])
def test_a_superseded_window_beyond_the_cap_still_rejects_if_it_counted(folder, silent):
    old = folder.cost("candidate", 900.0, name="old", lines=lambda lines: silent and lines[0].pop("good"))
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.cost("candidate", name="new", change=lambda e: e.update(supersedes=named))
    assert judged(folder, f"max_{PER_GOOD}, limit: 0.001")["outcome"] == ("pass" if silent else "fail")


def test_a_file_without_a_currency_is_in_that_of_the_policy(recorded):
    silent = {"currency": ""}
    assert outcome(recorded(candidate=silent, baseline=silent)) == ("unknown", "cost_incomplete")
    in_dollars = HEAD + "currency: USD\n"
    assert recorded(head=in_dollars, candidate=silent)["outcome"] == "pass"
    assert recorded(head=in_dollars, candidate=silent, baseline=silent)["outcome"] == "pass"


def test_a_window_is_as_long_as_any_run_must_be(folder):
    both(folder)
    assert judged(folder, head=HEAD + "min_duration_s: 120\n")["outcome"] == "pass"
    assert outcome(judged(folder, head=HEAD + "min_duration_s: 121\n")) == ("unknown", "truncated")


def test_accelerators_that_cost_nothing_were_not_counted(recorded):
    assert outcome(recorded(candidate={"gpu_cost": 0.0, "other_cost": 5.0})) == ("unknown", "cost_incomplete")


def test_a_service_without_accelerators_may_cost_little(folder, subject_of):
    folder.subjects["candidate"] = subject_of("r2", accelerator={"vendor": "none", "sku": "none", "count": 0})
    folder.cost("candidate", header={"gpu_count": 0, "other_cost": 0.01})
    assert judged(folder, f"max_{PER_GOOD}, limit: 1")["outcome"] == "pass"


def test_a_rate_is_an_operating_point_too(folder):
    def at_rate(envelope):
        envelope["scenario"].pop("concurrency")
        envelope["scenario"] |= {"load_model": "open", "rate": 5.0}

    for role in ("baseline", "candidate"):
        folder.cost(role, change=at_rate)
    assert judged(folder)["outcome"] == "pass"


def test_windows_that_produced_nothing_are_no_repeated_runs(folder):
    windows(folder, "baseline", [2.0, 2.02, 1.98])
    windows(folder, "candidate", [2.0, 2.02, 1.98])
    run = {"group": "g", "ordinal": 3, "of": 3}

    def failed(lines):
        for line in lines:
            line.update(outcome="http_error")

    folder.cost("candidate", 2.0, name="candidate-3", change=lambda e: e.update(run=run), lines=failed)
    record = judged(folder)
    assert (record["method"], record["outcome"], record["estimate"]) == (
        "guard_band",
        "fail",
        1.505,
    )  # three windows paid, two of them used


def test_the_smaller_number_of_windows_counts(folder):
    folder.cost("baseline")
    windows(folder, "candidate", [2.0, 2.01, 2.02])
    assert outcome(judged(folder, f"{PER_TOKENS}, min_pass: 3")) == ("unknown", "summary_only")
    assert judged(folder, f"{PER_TOKENS}, min_pass: 1")["outcome"] == "pass"


def test_the_limit_is_one_and_the_margin(folder):
    both(folder)
    assert judged(folder)["limit"] == 1.1
    assert judged(folder, f"{PER_TOKENS}, margin: 0.25")["limit"] == 1.25


def test_windows_say_how_many_more_of_them_would_settle_it(folder):
    """The bound is 2.92 · 0.0141 / √3 = 0.0238 around the mean logarithm, the limit 0.0123 away: 3.75 times as many."""
    shares = (1.07, 1.09, 1.10)
    windows(folder, "baseline", [2.0, 2.01, 2.02])
    windows(folder, "candidate", [2.0 * shares[0], 2.01 * shares[1], 2.02 * shares[2]])
    record = judged(folder)
    assert outcome(record) == ("unknown", "interval_straddles")
    assert record["detail"].startswith("ratio 1.09 [")
    missing = int(record["needs"].split()[1])
    assert missing == 9
    prices = [2.0 + 0.01 * place for place in range(3 + missing)]
    windows(folder, "baseline", prices)
    windows(folder, "candidate", [price * shares[place % 3] for place, price in enumerate(prices)])
    assert judged(folder)["outcome"] == "pass"


def test_a_cap_may_need_more_windows(folder):
    folder.cost("candidate")
    record = judged(folder, f"max_{PER_GOOD}, limit: 1, min_compute: 2, min_pass: 3")
    assert (outcome(record), record["needs"]) == (("unknown", "insufficient_n"), "about 2 more windows needed")


def test_what_accelerators_cost_is_not_none_because_there_are_none(folder, subject_of, recorded):
    folder.subjects["candidate"] = subject_of("r2", accelerator={"vendor": "none", "sku": "none", "count": 0})
    folder.cost("candidate", header={"gpu_count": 0, "other_cost": 1.0})
    assert recorded(f"max_{PER_GOOD}, limit: 1")["outcome"] == "pass"
    silent = recorded(f"max_{PER_GOOD}, limit: 1", candidate={"gpu_cost": None})
    assert outcome(silent) == ("unknown", "cost_incomplete")


def test_without_a_baseline_nothing_is_compared(folder):
    folder.cost("candidate")
    assert outcome(judged(folder)) == ("unknown", "no_evidence")


def test_of_several_windows_of_the_baseline_each_must_have_counted(folder):
    folder.cost("candidate")
    folder.cost("baseline", name="counted")
    folder.cost("baseline", name="silent", lines=lambda lines: lines[0].pop("good"))
    assert outcome(judged(folder, PER_GOOD)) == ("unknown", "no_evidence")


def test_another_version_of_the_tool_is_not_compared(folder, monkeypatch):
    monkeypatch.setattr("pulumi_infercrane.guard.evidence.readers.infercrane.VERSIONS", ("0.1", "0.2"))
    both(folder, change=lambda e: e["files"][0].update(tool_version="0.2"))
    assert outcome(judged(folder)) == ("unknown", "version_mismatch")


def test_windows_without_a_group_are_each_others_partners_whenever_they_began(folder):
    def at(clock, run=None):
        window = {"started_at": f"2026-11-30T{clock}:00Z", "ended_at": "2026-11-30T04:02:00Z"}
        return {
            "header": window | {"duration_s": 120.0},
            "change": lambda e: e.update({"window": window} | ({"run": run} if run else {})),
        }

    for role, clock in (("baseline", "03:50"), ("candidate", "03:58")):
        for ordinal in (1, 2):
            run = {"group": "g", "ordinal": ordinal, "of": 2}
            folder.cost(role, 2.0 + ordinal / 100, name=f"{role}-{ordinal}", **at("03:54", run))
        folder.cost(role, 3.0, name=f"{role}-lone", **at(clock))
    record = judged(folder)
    assert (record["method"], record["lo"], record["hi"]) == ("repeated_runs", 1, 1)


@pytest.mark.parametrize(("as_of", "expected"), [("00:00:00", "pass"), ("00:00:01", "unknown")])
def test_prices_are_good_for_thirty_days(folder, as_of, expected):
    both(folder, header={"price_date": "2026-11-01"})
    assert judged(folder, as_of=f"2026-12-01T{as_of}Z")["outcome"] == expected
