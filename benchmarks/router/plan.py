"""What is measured of each data plane, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass

OURS, BARE, LARGE, RENAMING = "ours, all on", "ours, bare", "ours, large table", "ours, bare, answer_as_alias"
ONE, TWO = "ours, 1 worker", "ours, 2 workers"
DIRECT = "direct"
MEMORY, STREAM, FEW, WHOLE, WORKERS, MANY = "memory", "stream", "few", "whole", "workers", "many"
FEW_STREAMS, SMALL_CONNECTIONS = 10, 32
QUIET_CORES = 0.2


@dataclass(frozen=True)
class Load:
    """What the load tool is told: connections, `stream`, `whole` or `resting` answers, seconds until all have begun."""

    connections: int
    answers: str
    ramp_s: float
    measure_s: float


@dataclass(frozen=True)
class Plan:
    """Rounds per data plane; streams at a time; seconds measured of them, best as long as a stream; peers by name."""

    rounds: int = 5
    streams: int = 1000
    measure_s: float = 5
    peers: tuple[str, ...] = ()

    def loads(self) -> Mapping[str, Load]:
        """By kind of cell."""
        return {
            MEMORY: Load(200, "stream", 1, 1),
            STREAM: Load(self.streams, "stream", 4, self.measure_s),
            FEW: Load(FEW_STREAMS, "stream", 1, self.measure_s),
            WHOLE: Load(SMALL_CONNECTIONS, "whole", 0.5, self.measure_s / 2),
            WORKERS: Load(4 * SMALL_CONNECTIONS, "resting", 0.5, self.measure_s / 2),
        }


@dataclass(frozen=True)
class Cell:
    """One data plane under one load in one round."""

    cpu_us: float
    """Of all its processes, per event or per request."""
    per_s: float
    """Events or requests."""
    broken: int
    """Requests without a whole answer."""
    ttft_ms: float
    ttft_p99_ms: float
    delay_ms: float
    """From the model server's writing of an event to the client's reading of it."""
    delay_p99_ms: float
    memory_mib: float
    foreign_cores: float
    """Processor time of everybody else on the machine, in cores."""


Cells = Mapping[str, Mapping[str, list[Cell]]]
"""By data plane and kind."""


class Failed(Exception):
    """A data plane does not start, does not answer, or leaves its cores."""
