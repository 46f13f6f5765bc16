"""How a policy lets a candidate take over in steps, and how it is watched afterwards: `canary` and `post_promotion`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, cast

from pulumi_infercrane.guard.policy_yaml import Node
from pulumi_infercrane.guard.times import parse_duration

WHOLE = 100
"""Percent of a route."""

_CANARY_KEYS = ("steps", "min_step", "max_step", "on_timeout")
_POST_PROMOTION_KEYS = ("window", "max_window", "auto_rollback", "retain_previous", "relative_latency")


@dataclass(frozen=True)
class Canary:
    """Steps of the candidate's weight in percent; the last one, 100, is the flip."""

    steps: tuple[int, ...] = (1, 5, 25, WHOLE)
    min_step: timedelta = timedelta(minutes=10)
    """Traffic that must have been watched before a step can end well."""
    max_step: timedelta = timedelta(minutes=60)
    on_timeout: Literal["hold", "step_back"] = "hold"
    """What becomes of a step that stays undecided for `max_step`."""


@dataclass(frozen=True)
class PostPromotion:
    """The watch over a revision that took over."""

    window: timedelta = timedelta(minutes=30)
    """Traffic that must have been watched before the watch can end well."""
    max_window: timedelta = timedelta(hours=24)
    auto_rollback: bool = True
    retain_previous: bool = True
    """The revision that served before stays warm until the watch ends."""
    relative_latency: Literal["notice", "rollback"] = "notice"


def read_canary(node: Node) -> Canary:
    """The `canary` of a policy; what is left out takes the default.

    Raises:
        PolicyError: with the line.
    """
    fields = node.mapping(_CANARY_KEYS)
    default = Canary()
    steps = _steps(fields["steps"]) if "steps" in fields else default.steps
    min_step = _duration(fields, "min_step", default.min_step)
    max_step = _duration(fields, "max_step", default.max_step)
    if max_step < min_step:
        raise (fields.get("max_step") or fields["min_step"]).error("max_step: must not be shorter than min_step")
    on_timeout = fields["on_timeout"].choice("hold", "step_back") if "on_timeout" in fields else default.on_timeout
    return Canary(steps, min_step, max_step, cast("Literal['hold', 'step_back']", on_timeout))


def read_post_promotion(node: Node) -> PostPromotion:
    """The `post_promotion` of a policy; what is left out takes the default.

    Raises:
        PolicyError: with the line.
    """
    fields = node.mapping(_POST_PROMOTION_KEYS)
    default = PostPromotion()
    window = _duration(fields, "window", default.window)
    max_window = _duration(fields, "max_window", default.max_window)
    if max_window < window:
        raise (fields.get("max_window") or fields["window"]).error("max_window: must not be shorter than window")
    latency = fields["relative_latency"].choice("notice", "rollback") if "relative_latency" in fields else "notice"
    return PostPromotion(
        window=window,
        max_window=max_window,
        auto_rollback=_boolean(fields, "auto_rollback", default.auto_rollback),
        retain_previous=_boolean(fields, "retain_previous", default.retain_previous),
        relative_latency=cast("Literal['notice', 'rollback']", latency),
    )


def weights(candidate: str, baseline: str, share: int) -> dict[str, int]:
    """Percent by revision when the candidate gets `share` of a route; a revision without any is left out."""
    both = {candidate: share, baseline: WHOLE - share}
    return {revision: percent for revision, percent in both.items() if percent}


def _steps(node: Node) -> tuple[int, ...]:
    steps = tuple(item.integer(1, WHOLE) for item in node.items())
    if len(steps) < 2 or list(steps) != sorted(set(steps)) or steps[-1] != WHOLE:
        raise node.error("steps: must rise to 100 in at least two steps, as in [5, 25, 100]")
    return steps


def _duration(fields: Mapping[str, Node], name: str, default: timedelta) -> timedelta:
    return fields[name].parsed(_positive_duration) if name in fields else default


def _positive_duration(text: str) -> timedelta:
    duration = parse_duration(text)
    if not duration:
        raise ValueError(f"{text!r} is no time at all")
    return duration


def _boolean(fields: Mapping[str, Node], name: str, default: bool) -> bool:
    return fields[name].boolean() if name in fields else default
