"""Until when a piece of evidence may be used: its own age by kind and stack, and what ends by itself within it."""

from datetime import datetime

from pulumi_infercrane.guard.judging.rule import Member
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.rules import find_kind
from pulumi_infercrane.guard.times import format_duration, format_time


def usable_until(policy: Policy, stack: str, member: Member) -> datetime:
    """The last moment at which a piece may be judged."""
    kind = member.envelope.kind
    ends = member.envelope.window.ended + policy.oldest(kind, stack)
    own = find_kind(kind).valid_until(member)
    return min(ends, own) if own else ends


def stale_problem(policy: Policy, stack: str, member: Member, as_of: datetime) -> Problem | None:
    """`stale` once a piece, or what it was computed from, is older than allowed."""
    window, most = member.envelope.window, policy.oldest(member.envelope.kind, stack)
    if as_of > window.ended + most:
        text = f"measured until {window.ended_at}, older than the {format_duration(most)} allowed; measure again"
        return Problem("stale", text)
    until = usable_until(policy, stack, member)
    if as_of > until:
        return Problem("stale", f"what it was computed from was valid until {format_time(until)}; measure again")
    return None
