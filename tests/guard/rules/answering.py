"""Answers of both sides to tasks, for the tests of quality, and the records of rules about them."""

from dataclasses import replace

from pulumi_infercrane.guard.evidence.readers.infercrane import quality as quality_reader
from pulumi_infercrane.guard.evidence.records import Score

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [quality]\n"


def judged(folder, rule, head=HEAD):
    (record,) = folder.decide(policy=f"{head}rules:\n  - {{{rule}}}\n").record["rules"]
    return record


def both(folder, candidate, n=60, baseline=None, **changes):
    folder.quality("baseline", baseline or [1.0] * n)
    folder.quality("candidate", candidate, **changes)


def scores(n, lost):
    return [0.0] * lost + [1.0] * (n - lost)


def changed(monkeypatch, change):
    """Every record that is read, changed."""
    read = quality_reader.read
    monkeypatch.setattr(quality_reader, "read", lambda header, lines: change(read(header, lines)))


def unpaired(folder, monkeypatch, baseline, candidate, rule="id: quality.basics"):
    """The rule judged on two means, each `(value, stderr, n)`."""
    scores = {folder.baseline: Score(*baseline), folder.candidate: Score(*candidate)}
    read = quality_reader.read

    def summary(header, lines):
        return replace(read(header, lines), answers={}, summary=scores[header["revision_digest"]])

    monkeypatch.setattr(quality_reader, "read", summary)
    both(folder, [1.0], 1)
    return judged(folder, rule)


MEAN = "{id: quality.a, min_pass: 100}, {id: quality.b, min_pass: 100}, {id: quality.mean}"


def mean_of(folder, rules=MEAN, **lost):
    """Tasks of 300 items, of which the candidate loses as many as said."""
    for task, number in lost.items():
        folder.quality("baseline", [1.0] * 300, name=f"{task}-baseline", header={"task": task})
        folder.quality("candidate", scores(300, number), name=f"{task}-candidate", header={"task": task})
    records = folder.decide(policy=f"{HEAD}rules: [{rules}]\n").record["rules"]
    return next(record for record in records if record["rule"] == "quality.mean")
