"""Whose span a request is part of."""

import pytest

from pulumi_infercrane.router.telemetry.trace_context import span_under

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_request_with_a_trace_continues_it_and_keeps_its_choice() -> None:
    span = span_under(PARENT, sample=0)
    assert (f"{span.trace_id:032x}", f"{span.parent_id:016x}") == (PARENT[3:35].decode(), PARENT[36:52].decode())
    assert span.sampled
    assert not span_under(PARENT[:-2] + b"00", sample=1).sampled


def test_what_is_passed_on_names_our_span_as_the_parent() -> None:
    span = span_under(PARENT, sample=0)
    assert span.traceparent == PARENT[:36] + b"%016x" % span.span_id + b"-01"
    assert span.span_id != span.parent_id


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"00",
        PARENT[:-1],
        PARENT.upper(),
        b"ff" + PARENT[2:],
        b"00-" + b"0" * 32 + PARENT[35:],
        PARENT[:36] + b"0" * 16 + b"-01",
        PARENT + b"x",
    ],
)
def test_what_is_no_trace_context_begins_a_trace(header: bytes | None) -> None:
    span = span_under(header, sample=1)
    assert span.parent_id == 0
    assert span.trace_id != int(PARENT[3:35], 16)
    assert span.sampled


def test_fields_of_a_later_version_are_left_alone() -> None:
    assert span_under(b"cc" + PARENT[2:] + b"-later", sample=0).parent_id == int(PARENT[36:52], 16)


def test_the_share_that_is_kept() -> None:
    kept = sum(span_under(None, sample=0.25).sampled for _ in range(4000))
    assert 800 < kept < 1200  # 7 standard deviations
    assert not any(span_under(None, sample=0).sampled for _ in range(100))
