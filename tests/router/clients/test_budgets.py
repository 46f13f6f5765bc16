"""What a key has left, by a clock that is told the time."""

import pytest

from pulumi_infercrane.router.clients.budgets import ANSWER_TOKENS, Bucket, Budget, estimate
from pulumi_infercrane.router.clients.keys import KeyLimits
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.answers import Usage
from pulumi_infercrane.router.protocol.observer import Observer, Outcome


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refused(budget: Budget, body: bytes = b"{}") -> RequestRefused:
    with pytest.raises(RequestRefused) as found:
        budget.charge(body, "chat")
    return found.value


def observed(usage: Usage | None = None, events: int = 0) -> Observer:
    observer = Observer(Clock())
    observer.begin(b"text/event-stream" if events else b"application/json", b"")
    observer.feed([b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'] * events)
    observer.usage = usage
    return observer


def asking(tokens: int) -> bytes:
    return b'{"max_tokens": %d}' % tokens


def test_a_bucket_fills_evenly_and_no_further() -> None:
    bucket = Bucket(60, 1000)
    bucket.take(60, 1000)
    assert bucket.wait_s(1, 1000) == pytest.approx(1)
    assert bucket.wait_s(1, 1001) == 0
    bucket.take(60, 4600)
    assert bucket.wait_s(1, 4600) == pytest.approx(1)


def test_nothing_is_given_back_beyond_a_minutes_worth() -> None:
    bucket = Bucket(60, 1000)
    bucket.take(-500, 1000)
    bucket.take(60, 1000)
    assert bucket.wait_s(1, 1000) == pytest.approx(1)


def test_more_than_a_minute_holds_goes_when_the_bucket_is_full_and_is_paid_for() -> None:
    bucket = Bucket(60, 1000)
    assert bucket.wait_s(600, 1000) == 0
    bucket.take(600, 1000)
    assert bucket.wait_s(1, 1000) == pytest.approx(541)


def test_requests_by_the_minute(clock: Clock) -> None:
    budget = Budget("ci", KeyLimits(requests_per_minute=2), clock)
    for _ in range(2):
        budget.charge(b"{}", "chat")
    error = refused(budget)
    assert (error.status, error.code, error.reason, error.retry_after_s) == (
        429,
        "rate_limit_exceeded",
        "key_requests",
        30,
    )
    clock.now += 30
    budget.charge(b"{}", "chat")


def test_requests_in_flight(clock: Clock) -> None:
    budget = Budget("ci", KeyLimits(max_inflight=1), clock)
    charge = budget.charge(b"{}", "chat")
    assert refused(budget).reason == "key_inflight"
    charge.settle(Outcome.COMPLETE, observed())
    budget.charge(b"{}", "chat").refund()
    budget.charge(b"{}", "chat")


@pytest.mark.parametrize(
    ("outcome", "observer", "used"),
    [
        (Outcome.COMPLETE, observed(Usage(10, 20)), 30),
        (Outcome.CLIENT_CANCELLED, observed(Usage(10, 20)), 30),
        (Outcome.COMPLETE, observed(events=7), 4 + 7),
        (Outcome.CLIENT_CANCELLED, observed(events=2), 4 + 2),
        (Outcome.COMPLETE, observed(), 4 + 500),
        (Outcome.UPSTREAM_CLOSED, observed(), 4 + 500),
        (Outcome.HTTP_ERROR, observed(), 0),
        (Outcome.CONNECT_FAILED, observed(), 0),
        (Outcome.COMPLETE, observed(Usage(900, 900)), 1800),
    ],
)
def test_tokens_are_estimated_before_and_settled_after(
    clock: Clock, outcome: Outcome, observer: Observer, used: int
) -> None:
    budget = Budget("ci", KeyLimits(tokens_per_minute=1000), clock)
    body = asking(500)
    charge = budget.charge(body, "chat")
    assert refused(budget, body).reason == "key_tokens"
    charge.settle(outcome, observer)
    left = 1000 - used
    if left >= 400:
        budget.charge(asking(left - 4), "chat")
        assert refused(budget, b"").retry_after_s == pytest.approx(ANSWER_TOKENS * 0.06, abs=1)
    else:
        assert refused(budget, body).retry_after_s == pytest.approx((504 - left) * 0.06, abs=1)


@pytest.mark.parametrize("body", [asking(999_999_999), b"x" * 1_000_000])
def test_a_huge_estimate_keeps_the_others_out_for_a_minute_at_most(clock: Clock, body: bytes) -> None:
    """They were told to come again in 59,999,957 s."""
    budget = Budget("ci", KeyLimits(tokens_per_minute=1000), clock)
    charge = budget.charge(body, "chat")
    assert refused(budget).retry_after_s == pytest.approx(ANSWER_TOKENS * 0.06, abs=1)
    assert refused(budget, body).retry_after_s == 60
    charge.settle(Outcome.COMPLETE, observed(Usage(10, 20)))
    budget.charge(asking(900), "chat")


def test_nothing_is_taken_by_a_refusal(clock: Clock) -> None:
    budget = Budget("ci", KeyLimits(requests_per_minute=1, tokens_per_minute=100, max_inflight=1), clock)
    budget.charge(asking(10), "chat").refund()
    for _ in range(5):
        assert refused(budget).reason == "key_requests"
    clock.now += 60
    budget.charge(asking(10), "chat")


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b"", (0, ANSWER_TOKENS)),
        (b'{"max_tokens":7}', (4, 7)),
        (b'{"max_completion_tokens" : 7}', (7, 7)),
        (b'{"max_output_tokens":\n7}', (6, 7)),
        (b'{"x":"\\"max_tokens\\": 7"}', (6, ANSWER_TOKENS)),
        (b'{"max_tokens":-7}', (4, ANSWER_TOKENS)),
        (b'{"max_tokens":' + b"9" * 5000 + b"}", (1253, 999_999_999)),
    ],
)
def test_an_estimate_needs_no_valid_body(body: bytes, tokens: tuple[int, int]) -> None:
    assert estimate(body) == tokens
