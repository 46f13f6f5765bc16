"""Questions about one candidate, for the tests of admission: a policy of one rule, good evidence, successors."""

import json

ERRORS_ONLY = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.error_fraction}]\n"


def entry(decision, path):
    """The record's line about one raw file."""
    return next(one for one in decision.record["evidence"] if path in one.get("files", []))


def decided(folder, **changes):
    return folder.decide(policy=ERRORS_ONLY, **changes)


def good(folder, name="", **changes):
    return folder.benchmark("candidate", folder.seconds(300), name=name, **changes)


def runs(folder, ordinals, of):
    for ordinal in ordinals:
        run = {"group": "g", "ordinal": ordinal, "of": of}
        folder.benchmark(
            "candidate",
            folder.seconds(150, ordinal),
            name=f"run-{ordinal}",
            change=lambda e, run=run: e.update(run=run),
        )


def measured_together(group):
    return lambda envelope: envelope.update(run={"group": group, "ordinal": 1, "of": 1})


def supersede(folder, old, reason="wrong data set", name="new", **changes):
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": reason}]
    return folder.benchmark(
        "candidate", folder.seconds(300, seed=7), name=name, change=lambda e: e.update(supersedes=named), **changes
    )
