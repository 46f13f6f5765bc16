"""Values of the control protocol that both its sides use."""

from collections.abc import Mapping
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
    expected_weights: Mapping[str, int] | None = None
    """Percent by revision that the route must carry; None when any will do."""


@dataclass(frozen=True)
class Weights:
    """One compare-and-swap of the shares of the active revision and of one candidate, as a canary step decides.

    `weights` is percent by revision and adds up to 100; all for the active one, or none at all, takes the candidate's
    share back. The other fields are those of `Flip`.
    """

    expected_active: str
    weights: Mapping[str, int]
    decision_id: str
    expires_at: str = ""
    expected_generation: str = ""
    expected_weights: Mapping[str, int] | None = None


@dataclass(frozen=True)
class DrainState:
    """`oldest_s` is the age of the oldest request in flight, `cut` the number ended by the deadline."""

    inflight: int
    oldest_s: float
    cut: int
    done: bool
