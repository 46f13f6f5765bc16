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

_MAX_TOKENS = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*([0-9]{1,9})')
_NOTHING_USED = frozenset({Outcome.HTTP_ERROR, Outcome.CONNECT_FAILED, Outcome.UNROUTABLE, Outcome.SHED})


class Bucket:
    """Fills evenly up to one minute's worth. May be overdrawn: what was used is only known afterwards.

    `now` is in seconds of a clock that is never set.
    """

    __slots__ = ("_at", "_level", "_per_second", "per_minute")

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._per_second = per_minute / 60
        self._level: float = per_minute
        self._at = now

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until this may be taken, 0 for now. More than there is room for may be taken from a full bucket."""
        self.take(0, now)
        missing = min(amount, self.per_minute) - self._level
        return missing / self._per_second if missing > 0 else 0

    def take(self, amount: float, now: float) -> None:
        """Negative to give back."""
        most, passed, self._at = self.per_minute, now - self._at, now
        level = self._level
        if passed > 0 and level < most:
            level = min(most, level + passed * self._per_second)
        self._level = level - amount if amount >= 0 else min(most, level - amount)


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
        now = self._clock()
        prompt, answer = self._expected(body)
        if self._max_inflight is not None and self._inflight >= self._max_inflight:
            raise self._limited("key_inflight", f"{self._max_inflight} requests in flight", 1, service)
        if self._requests is not None and (wait_s := self._requests.wait_s(1, now)):
            raise self._limited("key_requests", f"{self._requests.per_minute} requests per minute", wait_s, service)
        if self._tokens is not None and (wait_s := self._tokens.wait_s(prompt + answer, now)):
            raise self._limited("key_tokens", f"{self._tokens.per_minute} tokens per minute", wait_s, service)
        self._inflight += 1
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(prompt + answer, now)
        return Charge(self, prompt, answer)

    def settle(self, charged: int, used: int) -> None:
        """The request is over: correct what was taken."""
        self._inflight -= 1
        if self._tokens is not None:
            self._tokens.take(used - charged, self._clock())

    def _expected(self, body: bytes) -> tuple[int, int]:
        """Never more than a minute's worth: a request that names a huge limit must not keep the others of its key out
        for longer than what it really uses does.
        """
        if self._tokens is None:
            return 0, 0
        prompt, answer = estimate(body)
        prompt = min(prompt, self._tokens.per_minute)
        return prompt, min(answer, self._tokens.per_minute - prompt)

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


def estimate(body: bytes) -> tuple[int, int]:
    """Tokens of prompt and answer, without parsing: settled afterwards, so cheap matters more than right."""
    limit = _MAX_TOKENS.search(body)
    return len(body) // BYTES_PER_TOKEN, int(limit[1]) if limit else ANSWER_TOKENS
