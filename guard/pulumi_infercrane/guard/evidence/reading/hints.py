"""What a tool's file says of itself, held against the envelope. Only a certain contradiction counts.

A served model may have any alias and a tag any text: those prove nothing. A version, a digest, another repository of
the same hub or another arrival rate do.
"""

import re
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.readers import major_minor
from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.reasons import Inadmissible

TOLERANCE = 0.02

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HUB = "hf:"


def check_version(written: Any, envelope: Envelope) -> None:
    """The version in the file is the one in the envelope, to major.minor.

    Raises:
        Inadmissible: `schema_unknown` when the file names none, or `binding_conflict`.
    """
    declared = envelope.primary.tool_version
    if not isinstance(written, str):
        raise Inadmissible("schema_unknown", f"the file does not name the version of {envelope.primary.tool}")
    if major_minor(written) != major_minor(declared):
        detail = f"written by {envelope.primary.tool} {written}, the envelope says {declared}"
        raise Inadmissible("binding_conflict", detail)


def check_model(name: Any, envelope: Envelope) -> None:
    """A model name among those the server answered to; without such a probe, not another repository of the hub.

    Raises:
        Inadmissible: `binding_conflict`.
    """
    if not isinstance(name, str):
        return
    served = envelope.probes.before.models if envelope.probes else None
    source = envelope.subject.model.source
    if served is not None:
        if name not in served and name != source.removeprefix(_HUB):
            raise Inadmissible("binding_conflict", f"the file measured model {name!r}, served was {', '.join(served)}")
        return
    of_hub = source.startswith(_HUB) and _REPOSITORY.fullmatch(name)
    if of_hub and name.lower() != source.removeprefix(_HUB).lower():
        raise Inadmissible("binding_conflict", f"the file measured model {name!r}, the envelope says {source}")


def check_revision(label: Any, envelope: Envelope) -> None:
    """A label that is a revision digest is the digest of the subject.

    Raises:
        Inadmissible: `binding_conflict`.
    """
    declared = envelope.subject.revision_digest
    if isinstance(label, str) and _DIGEST.fullmatch(label) and label != declared:
        detail = f"the file is labelled {label[:19]}…, the envelope says {declared[:19]}…"
        raise Inadmissible("binding_conflict", detail)


def check_workload(record: Benchmark, envelope: Envelope) -> Benchmark:
    """The record, when its load is the one of the envelope's scenario.

    Raises:
        Inadmissible: `binding_conflict`.
    """
    scenario = envelope.scenario
    for name in ("load_model", "streaming"):
        _differ(name, getattr(record, name), getattr(scenario, name), exact=True)
    for name in ("rate", "concurrency"):
        _differ(name, getattr(record, name), getattr(scenario, name), exact=False)
    return record


def _differ(name: str, measured: Any, declared: Any, *, exact: bool) -> None:
    if measured in (None, "") or declared is None or measured == declared:
        return
    if exact or abs(measured - declared) > TOLERANCE * declared:
        raise Inadmissible("binding_conflict", f"the file's {name} is {measured}, scenario.{name} is {declared}")
