"""Our own files: read into canonical records, or refused with the line that is wrong."""

import functools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.evidence.envelope import parse_envelope
from pulumi_infercrane.guard.evidence.readers import infercrane
from pulumi_infercrane.guard.evidence.records import Answer, Replayed
from pulumi_infercrane.guard.reasons import Inadmissible
from tests.guard.evidence.readers.test_bad_files import BYTES, TEXT


def read(folder):
    (item,) = load_evidence(folder.root).items
    return item


def test_a_load_run_becomes_requests_in_seconds(folder):
    folder.benchmark("candidate", [0.05, 0.06, 0.07], failed=1)
    record = read(folder).record
    assert (record.attempted, record.failed, record.concurrency, record.token_source) == (3, 1, 2.0, "usage")
    requests = record.requests
    columns = (requests.ttft_s, requests.tpot_s, requests.e2e_s, requests.in_tokens, requests.out_tokens)
    assert [column[0] for column in columns] == pytest.approx([0.05, 0.01, 0.52, 30, 48])
    assert list(requests.ok) == [1, 1, 0]
    assert record.errors == {"http_error": 1}
    assert list(requests.seconds("ttft_s")) == pytest.approx([0.05, 0.06, math.inf])


def test_a_task_becomes_answers_by_id(folder):
    def cut_and_empty(lines):
        lines[1] |= {"finish_reason": "length", "empty": True}
        lines[2] = {"id": "0002", "score": 0, "outcome": "idle_timeout"}

    folder.quality("candidate", [1, 0.5, 0], lines=cut_and_empty)
    record = read(folder).record
    assert (record.task, record.metric, record.attempted) == ("basics", "contains", 3)
    texts = [answer.text_sha256 for answer in record.answers.values()]
    assert record.answers["0001"] == Answer(0.5, ok=True, empty=True, cut=True, text_sha256=texts[1])
    assert record.answers["0002"] == Answer(0.0, ok=False, empty=False, cut=False, text_sha256="")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"ttft_s": "0.05"}, "bad_value: line 2: ttft_s is not a number"),
        ({"ttft_s": None}, "bad_value: line 2: ttft_s is not a number"),
        ({"ttft_s": True}, "bad_value: line 2: ttft_s is not a number"),
        ({"ttft_s": 0.0}, "bad_value: 1 of 150 complete requests have a latency outside"),
        ({"e2e_s": -1.7e12}, "bad_value: 1 of 150 complete requests have a latency outside"),
        ({"e2e_s": 601}, "bad_value: 1 of 150 complete requests have a latency outside"),
        ({"out_tokens": 4.5}, "bad_value: line 2: out_tokens is not a count"),
        ({"in_tokens": -1}, "bad_value: line 2: in_tokens is not a count"),
        ({"id": "0001"}, "counters_disagree: line 3: id '0001' occurs twice"),
        ({"id": 1}, "bad_value: line 2: id is missing or not a text"),
        ({"outcome": None}, "bad_value: line 2: outcome is missing or not a text"),
        ({"token_source": "events"}, "inconsistent: token counts come from more than one source"),
    ],
)
def test_a_wrong_request_is_named(folder, line, expected):
    folder.benchmark("candidate", lines=lambda lines: lines[0].update(line))
    assert str(read(folder).problem).startswith(expected)


def test_a_complete_request_needs_its_latencies(folder):
    folder.benchmark("candidate", lines=lambda lines: lines[3].pop("e2e_s"))
    assert str(read(folder).problem) == "bad_value: line 5: a complete request without ttft_s or e2e_s"


def test_one_impossible_latency_in_a_thousand_counts_as_a_failure(folder):
    folder.benchmark("candidate", folder.seconds(1000), lines=lambda lines: lines[0].update(ttft_s=0))
    assert read(folder).record.failed == 1


def test_an_answer_of_one_token_has_no_time_per_token(folder):
    def short(lines):
        lines[0].update(out_tokens=1, e2e_s=lines[0]["ttft_s"])
        del lines[0]["tpot_s"]

    folder.benchmark("candidate", lines=short)
    assert math.isnan(read(folder).record.requests.tpot_s[0])


def test_parts_that_do_not_add_up_are_inconsistent(folder):
    folder.benchmark("candidate", lines=lambda lines: [line.update(tpot_s=0.02) for line in lines])
    assert read(folder).problem.code == "inconsistent"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"schema": "infercrane.benchmark/v2"}, "schema_unknown"),
        ({"schema": "infercrane.quality/v1"}, "schema_unknown"),
        ({"load_model": "open"}, "schema_unknown"),
        ({"revision_digest": "sha256:" + "0" * 64}, "binding_conflict"),
        ({"planned": 151}, "counters_disagree"),
        ({"planned": True}, "bad_value"),
        ({"concurrency": "2"}, "bad_value"),
        ({"streaming": 1}, "bad_value"),
        ({"started_at": "2026-11-30T03:00:00Z"}, "inconsistent"),
        ({"ended_at": "2026-11-30T04:02:00"}, "clock"),
    ],
)
def test_the_header_must_agree_with_its_envelope(folder, header, code):
    folder.benchmark("candidate", header=header)
    assert read(folder).problem.code == code


def test_more_lines_than_planned_are_refused(folder):
    folder.benchmark("candidate", lines=lambda lines: lines.append(lines[0] | {"id": "extra"}))
    assert read(folder).problem.code == "counters_disagree"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"score": 1.5}, "bad_value: line 2: score 1.5 is not between 0 and 1"),
        ({"score": "1"}, "bad_value: line 2: score is not a number"),
        ({"text_sha256": "abc"}, "bad_value: line 2: text_sha256 is not 64 hex digits"),
        ({"outcome": "truncated"}, "inconsistent: line 2: a failed request cannot score"),
    ],
)
def test_a_wrong_answer_line_is_named(folder, line, expected):
    folder.quality("candidate", lines=lambda lines: lines[0].update(line))
    assert str(read(folder).problem) == expected


def test_an_answer_without_a_score_is_refused(folder):
    folder.quality("candidate", lines=lambda lines: lines[0].pop("score"))
    assert str(read(folder).problem) == "bad_value: line 2: score is missing"


def test_a_replay_becomes_answers_by_id(folder):
    def spoil(lines):
        lines[0] |= {"similarity": 0.25, "refused": True}
        lines[1] = lines[1] | {"outcome": "idle_timeout"}
        lines[2] = {"id": "0002", "outcome": "complete"}

    folder.replay("candidate", 6, header={"similarity": "rouge-l"}, lines=spoil)
    record = read(folder).record
    assert (record.planned, record.attempted, record.greedy, record.similarity) == (6, 6, True, "rouge-l")
    whole = record.requests["0000"]
    figures = (whole.out_tokens, whole.ttft_s, whole.e2e_s, whole.similarity)
    assert figures == pytest.approx((40, 0.05, 0.5, 0.25))
    assert (whole.structured, whole.refused, whole.finish_reason) == (True, True, "stop")
    assert whole.tool_calls.startswith("sha256:")
    assert record.requests["0001"] == Replayed(ok=False, outcome="idle_timeout")
    assert record.requests["0002"] == Replayed(ok=True, outcome="complete")


def test_a_soak_becomes_counts(folder):
    def late(lines):
        lines[0].update(outcome="idle_timeout")
        lines[1].update(outcome="http_error")

    folder.reliability(n=600, lines=late, header={"unready_s": 1.5, "oom_kills": None})
    record = read(folder).record
    assert (record.attempted, record.failed, record.timeouts, record.duration_s) == (600, 2, 1, 1920.0)
    assert record.errors == {"idle_timeout": 1, "http_error": 1}
    assert (record.crashes, record.oom_kills, record.unready_s) == (0, None, 1.5)
    assert (record.cold_starts_s, record.rollback_drill_s) == ((20.0, 22.0, 25.0), 40.0)
    assert (record.streams_open_at_drain, record.streams_completed_at_drain) == (4, 4)


def test_a_priced_window_becomes_money_and_what_it_produced(folder):
    def spoil(lines):
        lines[0].update(outcome="http_error")
        lines[1].update(good=False)

    folder.cost("candidate", 3.0, 150, header={"gpu_count": 2, "other_cost": 0.5, "idle_included": True}, lines=spoil)
    record = read(folder).record
    assert record.gpu_cost == pytest.approx(3.0 * 2 * 120 / 3600)
    assert (record.other_cost, record.currency, record.price_date) == (0.5, "USD", "2026-11-20")
    assert (record.requests, record.good_requests, record.idle_included) == (150, 148, True)
    assert (record.output_tokens, record.input_tokens) == (149 * 48, 149 * 30)
    assert record.per_million_output_tokens == pytest.approx((0.2 + 0.5) / (149 * 48) * 1e6)


@pytest.mark.parametrize(
    ("kind", "line", "expected"),
    [
        ("replay", {"outcome": None}, "bad_value: line 2: outcome is missing or not a text"),
        ("replay", {"out_tokens": 1.5}, "bad_value: line 2: out_tokens is not a count"),
        ("replay", {"e2e_s": 0}, "bad_value: line 2: e2e_s 0 is not between 0 and 600 s"),
        ("replay", {"ttft_s": 601}, "bad_value: line 2: ttft_s 601 is not between 0 and 600 s"),
        ("replay", {"structured": "yes"}, "bad_value: line 2: structured is missing or not true or false"),
        ("replay", {"tool_calls": "get"}, "bad_value: line 2: tool_calls is not of the form sha256:"),
        ("replay", {"text_sha256": "abc"}, "bad_value: line 2: text_sha256 is not of the form"),
        ("replay", {"similarity": 1.1}, "bad_value: line 2: similarity 1.1 is not between 0 and 1"),
        ("replay", {"id": "0001"}, "counters_disagree: line 3: id '0001' occurs twice"),
        ("reliability", {"outcome": 1}, "bad_value: line 2: outcome is missing or not a text"),
        ("reliability", {"start_s": None}, "bad_value: line 2: start_s is not a number"),
        ("reliability", {"start_s": 2000}, "inconsistent: line 2: start_s does not lie within the 1920 s of the soak"),
        ("cost", {"outcome": None}, "bad_value: line 2: outcome is missing or not a text"),
        ("cost", {"good": 1}, "bad_value: line 2: good is missing or not true or false"),
        ("cost", {"out_tokens": -1}, "bad_value: line 2: out_tokens is not a count"),
    ],
)
def test_a_wrong_line_of_another_kind_is_named(folder, kind, line, expected):
    getattr(folder, kind)("candidate", lines=lambda lines: lines[0].update(line))
    assert str(read(folder).problem).startswith(expected)


@pytest.mark.parametrize(
    ("kind", "header", "expected"),
    [
        ("replay", {"workload_digest": "chat"}, "bad_value: line 1: workload_digest is not of the form sha256:"),
        ("replay", {"greedy": None}, "bad_value: line 1: greedy is missing or not true or false"),
        ("replay", {"similarity": 1}, "bad_value: line 1: similarity is missing or not a text"),
        ("reliability", {"duration_s": 3600}, "inconsistent: line 1: duration_s 3600 does not fit between"),
        ("reliability", {"duration_s": 0}, "inconsistent: line 1: duration_s 0 does not fit between"),
        ("reliability", {"crashes": 0.5}, "bad_value: line 1: crashes is not a count"),
        ("reliability", {"unready_s": -1}, "bad_value: line 1: unready_s is negative"),
        ("reliability", {"cold_starts_s": 20}, "bad_value: line 1: cold_starts_s is missing or not a list"),
        ("reliability", {"cold_starts_s": ["20"]}, "bad_value: line 1, cold_starts_s: start is not a number"),
        ("reliability", {"cold_starts_s": [0]}, "bad_value: line 1: cold_starts_s holds a start that took no time"),
        ("reliability", {"drain": {"streams_open": 4}}, "bad_value: line 1, drain: streams_completed is missing"),
        (
            "reliability",
            {"drain": {"streams_open": 1, "streams_completed": 2}},
            "inconsistent: line 1, drain: 2 streams completed of 1 that were open",
        ),
        ("cost", {"duration_s": 3600}, "inconsistent: line 1: duration_s 3600 does not fit between"),
        ("cost", {"price_per_gpu_hour": -1}, "bad_value: line 1: price_per_gpu_hour is negative"),
        ("cost", {"other_cost": -1}, "bad_value: line 1: other_cost is negative"),
        ("cost", {"currency": "dollars"}, "bad_value: line 1: currency 'dollars' is not a code like USD"),
        ("cost", {"price_date": "2026-11"}, "bad_value: line 1: price_date: '2026-11' is not a date"),
        ("cost", {"price_date": "2026-12-01"}, "inconsistent: line 1: prices of 2026-12-01 for a window"),
        ("cost", {"gpu_count": None}, "bad_value: line 1: gpu_count is missing"),
        ("cost", {"price_source": 5}, "bad_value: line 1: price_source is missing or not a text"),
    ],
)
def test_a_wrong_header_of_another_kind_is_named(folder, kind, header, expected):
    getattr(folder, kind)("candidate", header=header)
    assert str(read(folder).problem).startswith(expected)


def test_a_task_without_answers_has_no_scores(folder):
    folder.quality("candidate", ())
    assert read(folder).problem.code == "no_scores"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "not_json"),
        (b"not json", "not_json"),
        (b'{"schema": "infercrane.benchmark/v1", "planned": NaN}', "non_finite"),
        (b'{"schema": "infercrane.benchmark/v1", "planned": 4', "not_json"),
    ],
)
def test_a_file_that_is_not_json_lines_is_refused(folder, raw, code):
    folder.write_raw("benchmark", "candidate", "x", raw)
    assert read(folder).problem.code == code


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ({"tool": "wrk"}, "tool_unknown"),
        ({"tool": "../infercrane"}, "tool_unknown"),
        ({"tool_version": "0.2.0"}, "version_unknown"),
        ({"tool_version": "main"}, "version_unknown"),
    ],
)
def test_a_tool_nobody_reads_is_refused(folder, file, code):
    folder.benchmark("candidate", change=lambda e: e["files"][0].update(file))
    assert read(folder).problem.code == code


def test_patch_releases_of_a_known_tool_are_read(folder):
    folder.benchmark("candidate", change=lambda e: e["files"][0].update(tool_version="0.1.7"))
    assert read(folder).problem is None


def test_a_kind_we_do_not_write_is_refused(folder):
    folder.write_raw("vibes", "candidate", "x", json.dumps({"schema": "infercrane.vibes/v1"}).encode())
    assert str(read(folder).problem) == "tool_unknown: infercrane writes no evidence of kind 'vibes'"


# --- broken, foreign or hostile bytes ---------------------------------------------------------------------------

KINDS = ("benchmark", "cost", "quality", "reliability", "replay")
by_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def outcome(new_folder):
    """`outcome(kind, change)`: what reading the changed lines of a good file gives, or the code of the refusal."""
    folder = new_folder().every_kind()
    documents = (json.loads(path.read_bytes()) for path in folder.root.glob("*-candidate.evidence.json"))
    envelopes = {one.kind: one for one, _ in map(parse_envelope, documents)}
    files = {kind: (folder.root / one.primary.path).read_bytes() for kind, one in envelopes.items()}

    def of(kind, change):
        raw = change(files[kind])
        try:
            return infercrane.read({"primary": raw}, envelopes[kind])
        except Inadmissible as error:
            return error.problem.code

    return of


def in_last_line(change):
    """A change of a whole file, made to its last line alone."""

    def of(raw):
        head, line = raw.rstrip().rsplit(b"\n", 1)
        return head + b"\n" + change(line)

    return of


@by_kind
def test_an_unchanged_file_is_read(outcome, kind):
    assert type(outcome(kind, lambda raw: raw)).__name__.lower() == kind


@by_kind
@pytest.mark.parametrize("change", BYTES)
def test_what_is_not_a_file_of_ours_is_refused(outcome, kind, change):
    assert isinstance(outcome(kind, BYTES[change]), str)


@by_kind
@pytest.mark.parametrize("change", sorted(BYTES.keys() - {"empty", "blank", "object"}))
def test_what_is_not_a_line_of_ours_is_refused(outcome, kind, change):
    assert isinstance(outcome(kind, in_last_line(BYTES[change])), str)


def with_a_number(line):
    return line.replace(b"{", b'{"extra": 0.5, ', 1)


@by_kind
@pytest.mark.parametrize("change", TEXT)
@pytest.mark.parametrize("where", [lambda change: change, in_last_line], ids=["header", "line"])
def test_lines_that_parsers_disagree_about_are_refused(outcome, kind, change, where):
    assert not isinstance(outcome(kind, where(with_a_number)), str)
    assert isinstance(outcome(kind, where(lambda text: TEXT[change](with_a_number(text)))), str)


@by_kind
def test_an_id_that_occurs_twice_is_refused(outcome, kind):
    def twice(raw):
        *lines, before, _ = raw.splitlines()
        return b"\n".join([*lines, before, before])

    assert outcome(kind, twice) == "counters_disagree"


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30) | st.just(10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
FIELDS = {
    "benchmark": ["id", "ttft_s", "tpot_s", "e2e_s", "in_tokens", "out_tokens", "token_source", "outcome"],
    "quality": ["id", "score", "outcome", "finish_reason", "empty", "text_sha256"],
    "replay": ["id", "outcome", "out_tokens", "e2e_s", "structured", "tool_calls", "refused", "similarity"],
    "reliability": ["id", "outcome", "e2e_s"],
    "cost": ["id", "outcome", "in_tokens", "out_tokens", "good"],
}
HEADERS = [
    "schema",
    "revision_digest",
    "planned",
    "started_at",
    "ended_at",
    "concurrency",
    "streaming",
    "task",
    "metric",
    "workload_digest",
    "greedy",
    "duration_s",
    "crashes",
    "cold_starts_s",
    "drain",
    "price_date",
    "currency",
    "price_per_gpu_hour",
    "gpu_count",
]


@given(kind=st.sampled_from(sorted(FIELDS)), data=st.data())
def test_whatever_stands_in_a_field_nothing_is_raised(folder, kind, data):
    line = {data.draw(st.sampled_from(FIELDS[kind])): data.draw(anything)}
    header = data.draw(st.dictionaries(st.sampled_from(HEADERS), anything, max_size=1))
    for path in folder.root.glob("*"):
        path.unlink()
    write = getattr(folder, kind)
    if kind not in ("benchmark", "quality"):
        write = functools.partial(write, n=5)
    write("baseline")
    write("candidate", header=header, lines=lambda lines: lines[0].update(line))
    assert folder.decide().verdict == "insufficient_evidence"
