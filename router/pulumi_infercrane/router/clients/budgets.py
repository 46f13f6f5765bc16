"""What a client key has left: requests and tokens by the minute, requests in flight."""

import math
import re
from collections.abc import Callable

from pulumi_infercrane.router.clients.keys import KeyLimits
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.observer import Observer, Outcome

BYTES_PER_TOKEN = 4
ANSWER_TOKENS = 256
"""Assumed of an answer whose request names no limit."""

_ROUNDING_S = 1e-6
"""A shorter wait is none."""
_MAX_TOKENS = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*([0-9]{1,9})')
_NOTHING_USED = frozenset({Outcome.HTTP_ERROR, Outcome.CONNECT_FAILED, Outcome.UNROUTABLE, Outcome.SHED})


class Bucket:
    """Fills evenly up to one minute's worth. May be overdrawn: what was used is only known afterwards.

    It is known by the moment it is full again, so that nothing has to be filled (the generic cell rate algorithm).
    `now` is in seconds of a clock that never goes back.
    """

    __slots__ = ("_full_at", "_seconds_each", "per_minute")

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._seconds_each = 60 / per_minute
        self._full_at = now

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until this may be taken, 0 for now. More than there is room for may be taken from a full bucket."""
        rest = self.per_minute - amount
        wait_s = self._full_at - now
        if rest > 0:
            wait_s -= rest * self._seconds_each
        return wait_s if wait_s > _ROUNDING_S else 0

    def take(self, amount: float, now: float) -> None:
        """Negative to give back."""
        full_at = self._full_at
        self._full_at = (full_at if full_at > now else now) + amount * self._seconds_each


class Budget:
    """Of one key, whatever secret it is used with."""

    def __init__(self, key: str, limits: KeyLimits, clock: Callable[[], float]) -> None:
        self._name = key
        self._clock = clock
        self._requests = Bucket(limits.requests_per_minute, clock()) if limits.requests_per_minute else None
        self._tokens = Bucket(limits.tokens_per_minute, clock()) if limits.tokens_per_minute else None
        self._max_inflight = limits.max_inflight
        self._inflight = 0

    def charge(self, body: bytes, service: str) -> "Charge":
        """Take what a request is expected to use.

        Raises:
            RequestRefused: 429; nothing was taken.
        """
        now, requests, tokens = self._clock(), self._requests, self._tokens
        prompt, answer = (0, 0) if tokens is None else _expected(body, tokens.per_minute)
        if self._max_inflight is not None and self._inflight >= self._max_inflight:
            raise self._limited("key_inflight", f"{self._max_inflight} requests in flight", 1, service)
        if requests is not None and (wait_s := requests.wait_s(1, now)):
            raise self._limited("key_requests", f"{requests.per_minute} requests per minute", wait_s, service)
        if tokens is not None and (wait_s := tokens.wait_s(prompt + answer, now)):
            raise self._limited("key_tokens", f"{tokens.per_minute} tokens per minute", wait_s, service)
        self._inflight += 1
        if requests is not None:
            requests.take(1, now)
        if tokens is not None:
            tokens.take(prompt + answer, now)
        return Charge(self, prompt, answer)

    def settle(self, charged: int, used: int) -> None:
        """The request is over: correct what was taken."""
        self._inflight -= 1
        if self._tokens is not None:
            self._tokens.take(used - charged, self._clock())

    def _limited(self, reason: str, limit: str, wait_s: float, service: str) -> RequestRefused:
        return RequestRefused(
            429,
            "rate_limit_exceeded",
            f"the API key {self._name} may have {limit}",
            retry_after_s=math.ceil(wait_s),
            service=service,
            reason=reason,
        )


class Charge:
    """What one request took from a budget: given back or corrected once."""

    __slots__ = ("_answer", "_budget", "_prompt")

    def __init__(self, budget: Budget, prompt: int, answer: int) -> None:
        self._budget = budget
        self._prompt = prompt
        self._answer = answer

    def refund(self) -> None:
        """The request never reached an upstream."""
        self._budget.settle(self._prompt + self._answer, 0)

    def settle(self, outcome: Outcome, observer: Observer) -> None:
        """By the tokens the upstream counted, else by the events of the stream, else by the estimate."""
        charged = self._prompt + self._answer
        if observer.usage is not None:
            used = observer.usage.prompt + observer.usage.completion
        elif outcome in _NOTHING_USED:
            used = 0
        elif observer.streaming:
            used = self._prompt + observer.content_events
        else:
            used = charged
        self._budget.settle(charged, used)


def _expected(body: bytes, per_minute: int) -> tuple[int, int]:
    """Never more than a minute's worth: a request that names a huge limit must not keep the others of its key out
    for longer than what it really uses does.
    """
    prompt, answer = estimate(body)
    if prompt + answer <= per_minute:
        return prompt, answer
    prompt = min(prompt, per_minute)
    return prompt, min(answer, per_minute - prompt)


def estimate(body: bytes) -> tuple[int, int]:
    """Tokens of prompt and answer, without parsing: settled afterwards, so cheap matters more than right."""
    limit = _MAX_TOKENS.search(body)
    return len(body) // BYTES_PER_TOKEN, int(limit[1]) if limit else ANSWER_TOKENS
