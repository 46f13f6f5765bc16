"""W3C trace context (https://www.w3.org/TR/trace-context/): whose span a request is part of, and which one is ours."""

import re
import secrets
from typing import NamedTuple

_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED = 1


class Span(NamedTuple):
    """Our span of a request. Ids are integers; `parent_id` is 0 for the first span of a trace."""

    trace_id: int
    span_id: int
    parent_id: int
    sampled: bool

    @property
    def traceparent(self) -> bytes:
        """The header for whoever comes next."""
        return b"00-%032x-%016x-%02x" % (self.trace_id, self.span_id, self.sampled)


def span_under(traceparent: bytes | None, sample: float) -> Span:
    """A new span, under the client's when it has one. `sample` is the share of traces kept that begin here."""
    span_id = secrets.randbits(64) or 1
    found = _TRACEPARENT.fullmatch(traceparent) if traceparent is not None else None
    if found is not None:
        trace_id, parent_id = int(found[1], 16), int(found[2], 16)
        if trace_id and parent_id:
            return Span(trace_id, span_id, parent_id, bool(int(found[3], 16) & _SAMPLED))
    trace_id = secrets.randbits(128) or 1
    return Span(trace_id, span_id, 0, (trace_id & (2**64 - 1)) < sample * 2**64)
