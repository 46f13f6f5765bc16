"""What several processes count, as one: Prometheus texts added up, sample by sample."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pulumi_infercrane.router.telemetry.metrics import PREFIX

_Join = Callable[[float, float], float]
_JOINED_BY: dict[str, _Join] = {f"{PREFIX}replica_ready": min, f"{PREFIX}replica_failed_probes": max}
"""Families whose samples are not added: a replica is ready when it is for everybody."""
_OF_THE_TABLE = f"{PREFIX}route_"
"""Families that every process has alike; those of the first text are taken."""


class Family(NamedTuple):
    """Samples by what stands before their value."""

    kind: str
    samples: dict[str, float]


Families = dict[str, Family]


def read(text: str) -> Families:
    """The families of a text of ours."""
    families: Families = {}
    current: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            current = families.setdefault(name, Family(kind, {})).samples
        elif not line.startswith("#"):
            key, _, value = line.rpartition(" ")
            current[key] = float(value)
    return families


def added(texts: Iterable[Families]) -> Families:
    """All of them together."""
    total: Families = {}
    for text in texts:
        for name, family in text.items():
            known = total.get(name)
            if known is None:
                total[name] = Family(family.kind, dict(family.samples))
            elif not name.startswith(_OF_THE_TABLE):
                _add(known.samples, family.samples, _JOINED_BY.get(name, float.__add__))
    return total


def counted(families: Families) -> Families:
    """What stays true of a process that has ended: its counters, not its gauges."""
    return {name: family for name, family in families.items() if family.kind != "gauge"}


def without(families: Families, service: str, revision: str) -> Families:
    """Without the series of a revision."""
    gone = (f'service="{service}"', f'revision="{revision}"')
    return {
        name: Family(kind, {key: value for key, value in samples.items() if not all(label in key for label in gone)})
        for name, (kind, samples) in families.items()
    }


def written(families: Families) -> str:
    """As a text again."""
    return "".join(line for name, family in families.items() for line in _lines(name, family))


def _add(total: dict[str, float], more: dict[str, float], join: _Join) -> None:
    for key, value in more.items():
        total[key] = join(total[key], value) if key in total else value


def _lines(name: str, family: Family) -> Iterator[str]:
    yield f"# TYPE {name} {family.kind}\n"
    for key, value in family.samples.items():
        yield f"{key} {int(value) if value.is_integer() else value}\n"
