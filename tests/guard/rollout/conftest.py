"""Windows as a router would write them, and the decisions on them."""

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import Decision, Policy, canary_step, load_policy, post_promotion, read_window
from pulumi_infercrane.guard.times import format_time, parse_time

OLD, NEW, OTHER = ("sha256:" + digit * 64 for digit in "123")
START = "2026-11-30T04:00:00Z"

POLICY = """\
schema: infercrane.policy/v1
service: chat
required_kinds: [benchmark]
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: benchmark.error_fraction_difference, margin: 0.05}
  - {id: benchmark.ttft_p95, margin: 0.5, min_pass: 300}
  - {id: benchmark.e2e_p95, margin: 0.5, min_pass: 300}
canary: {steps: [5, 25, 100], min_step: 10m, max_step: 60m, on_timeout: step_back}
post_promotion: {window: 30m, max_window: 12h}
"""


def minutes(n: float) -> str:
    """The time so many minutes after the start."""
    return format_time(parse_time(START) + timedelta(minutes=n))


def seconds(n: int, seed: int = 1, scale: float = 1.0) -> list[float]:
    """Plausible times to the first token."""
    source = random.Random(seed)
    return [round(scale * source.lognormvariate(-3, 0.4), 6) for _ in range(n)]


def binding(revision: str, weight: int, ttft: Sequence[float] = (), failed: int = 0, **changes: Any) -> dict[str, Any]:
    """A revision that completed one request for each time, and failed others."""
    value: dict[str, Any] = {
        "revision": revision,
        "weight": weight,
        "completed": len(ttft),
        "failed_by_class": {"http_error": failed},
        "cut_streams": 0,
        "client_faults": {},
        "client_cancelled": 0,
        "unobserved": 0,
        "restarts": 0,
        "ttft_s": list(ttft),
        "e2e_s": [round(one + 0.5, 6) for one in ttft],
    } | changes
    counted = ("completed", "cut_streams", "client_cancelled", "unobserved")
    parts = sum(value[name] for name in counted)
    parts += sum(value["failed_by_class"].values()) + sum(value["client_faults"].values())
    return {"attempted": parts} | value


def window(*bindings: Mapping[str, Any], begin: float = 0, end: float = 10, **changes: Any) -> dict[str, Any]:
    """A window between two minutes after the start."""
    return {
        "schema": "infercrane.window/v1",
        "tool_version": "0.1",
        "service": "chat",
        "stack": "lab/prod",
        "generation": {"opened": 7, "closed": 7},
        "started_at": minutes(begin),
        "ended_at": minutes(end),
        "bindings": list(bindings),
    } | changes


def pair(n: int = 400, failed: int = 0, weight: int = 5, scale: float = 1.0, **changes: Any) -> dict[str, Any]:
    """A window with both revisions, `n` requests to each, of which the candidate failed some."""
    candidate = binding(NEW, weight, seconds(n - failed, 2, scale), failed)
    return window(candidate, binding(OLD, 100 - weight, seconds(n, 1)), **changes)


def alone(n: int = 400, failed: int = 0, scale: float = 1.0, **changes: Any) -> dict[str, Any]:
    """A window after the flip."""
    seed = int(changes.get("begin", 0)) + 3
    return window(binding(NEW, 100, seconds(n - failed, seed, scale), failed), binding(OLD, 0), **changes)


def loaded(windows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The windows as read from their files."""
    return [read_window(json.dumps(one).encode()) for one in windows]


def step(*windows: Mapping[str, Any], policy: str = POLICY, **changes: Any) -> Decision:
    """The decision on a canary step that began at the start, ten minutes later."""
    asked: dict[str, Any] = {
        "service": "chat",
        "stack": "prod",
        "candidate": NEW,
        "baseline": OLD,
        "weight": 5,
        "started_at": START,
        "as_of": minutes(10),
    }
    return canary_step(load_policy(policy), loaded(windows), **(asked | changes))


def flipped(**changes: Any) -> Mapping[str, Any]:
    """A decision that let the candidate take over, without windows of its own."""
    record = {
        "schema": "infercrane.decision/v1",
        "guard_version": "0.2.0",
        "decision_id": "sha256:" + "f" * 64,
        "decision_type": "promotion",
        "verdict": "promote",
        "action": "flip",
        "as_of": START,
        "service": "chat",
        "stack": "prod",
        "candidate": NEW,
        "baseline": OLD,
        "expected_active": OLD,
        "policy_digest": "sha256:" + "0" * 64,
        "history": [],
        "rules": [],
        "evidence": [],
        "reasons": ["benchmark.ttft_p95: within_margin"],
        "first_reason": "benchmark.ttft_p95: within_margin",
    }
    return record | changes


def opened(**changes: Any) -> Mapping[str, Any]:
    """A decision that let the canary begin: the candidate gets its first share."""
    return flipped(action="advance", expected_weights={OLD: 100}, weights={NEW: 5, OLD: 95}, **changes)


def watched(
    *windows: Mapping[str, Any], policy: str = POLICY, promoted: Mapping[str, Any] | None = None, **changes: Any
) -> Decision:
    """The decision of the watch, half an hour after the flip."""
    asked: dict[str, Any] = {"as_of": minutes(30)}
    return post_promotion(load_policy(policy), loaded(windows), promoted or flipped(), **(asked | changes))


def outcomes(decision: Decision) -> dict[str, str]:
    """Rule ids with their outcome and reason code."""
    return {rule["rule"]: f"{rule['outcome']} {rule['reasons'][0]}" for rule in decision.record["rules"]}


@pytest.fixture
def policy() -> Policy:
    return load_policy(POLICY)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes windows into a folder as a router does, and returns it."""

    def write(*windows: Mapping[str, Any]) -> Path:
        folder = tmp_path / "windows"
        folder.mkdir(exist_ok=True)
        for one in windows:
            name = f"{one['started_at'].replace(':', '')}.window.json"
            (folder / name).write_text(json.dumps(one))
        return folder

    return write
