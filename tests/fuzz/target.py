"""What a fuzz target is."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.forbidden import Watch
from tests.fuzz.mutate import Mutate, mutated


@dataclass(frozen=True)
class Target:
    """`run` says whether the input was accepted. Nothing leaves it but a finding; a refusal of the guard is none."""

    name: str
    run: Callable[[bytes, Watch], bool]
    seeds: tuple[bytes, ...] = field(repr=False)
    mutate: Mutate = mutated
