"""What differs between the two revisions of a decision, and which kinds of evidence such a change needs."""

from collections.abc import Collection, Iterable, Mapping

from pulumi_infercrane.guard.evidence.envelope import Subject

IDENTITY = ("revision_digest", "stack", "environment")
"""Fields of a subject that say where it stands or are computed from the others."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "quantization", "tokenizer_digest", "chat_template_sha"),
    "runtime": ("engine", "runtime", "parallelism"),
    "accelerator": ("accelerator", "provider", "region"),
    "scale": (),
}
"""Fields of a subject by the class of change they make. How many replicas there are is no part of a revision yet."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "model": ("benchmark", "quality", "reliability", "replay"),
    "runtime": ("benchmark", "quality", "reliability"),
    "accelerator": ("benchmark", "cost", "quality", "reliability"),
    "scale": ("cost", "reliability"),
}
"""Kinds each class of change needs; several classes need the union."""

EVERYTHING = tuple(sorted({kind for kinds in NEEDS.values() for kind in kinds}))


def changed_fields(baseline: Subject | None, candidate: Subject | None) -> tuple[str, ...]:
    """Names of the fields that differ, sorted; empty when one of the two is not known."""
    if baseline is None or candidate is None:
        return ()
    names = Subject.model_fields.keys() - set(IDENTITY)
    return tuple(sorted(name for name in names if getattr(baseline, name) != getattr(candidate, name)))


def classes_of(fields: Collection[str]) -> tuple[str, ...]:
    """The classes of change that a set of fields makes, in the order of `FIELDS`."""
    return tuple(name for name, members in FIELDS.items() if not set(members).isdisjoint(fields))


def kinds_needed(classes: Iterable[str]) -> tuple[str, ...]:
    """Kinds a change of these classes needs, sorted. A change nobody knows needs every kind."""
    needed = {kind for name in classes for kind in NEEDS[name]}
    return tuple(sorted(needed)) or EVERYTHING
