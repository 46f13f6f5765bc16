"""Values of the control protocol that both its sides use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flip:
    """One compare-and-swap of the active revision.

    `expected_active` is empty for the first flip. `expires_at` is RFC 3339; empty means never. `expected_generation`
    is empty when any generation will do.
    """

    expected_active: str
    to: str
    decision_id: str
    expires_at: str = ""
    expected_generation: str = ""


@dataclass(frozen=True)
class DrainState:
    """`oldest_s` is the age of the oldest request in flight, `cut` the number ended by the deadline."""

    inflight: int
    oldest_s: float
    cut: int
    done: bool
