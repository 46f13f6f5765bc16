"""What happens in the demo, step by step, and what must come out of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.demo.traffic import Traffic
from examples.demo.workspace import SERVICE
from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.guard import seal

if TYPE_CHECKING:
    from examples.demo.run import Teller

TASKS = Path(__file__).parents[1] / "tasks" / "basics.yaml"
LOAD = ("--requests", "40", "--max-tokens", "12", "--concurrency", "2")
ITEMS = ("--tasks", str(TASKS), "--items", "60")
AGAIN = ("--recording", str(Path(__file__).with_name("recording.jsonl")), "--greedy")

EXPECTED = {
    "r1 bootstrap": ("promote", "r1"),
    "r2 unmeasured": ("insufficient_evidence", "r1"),
    "r2 measured": ("promote", "r2"),
    "r3 unmeasured": ("insufficient_evidence", "r2"),
    "r3 measured": ("reject", "r2"),
    "r4 unmeasured": ("insufficient_evidence", "r2"),
    "r4 measured": ("insufficient_evidence", "r2"),
    "r4, evidence of r2": ("insufficient_evidence", "r2"),
    "r4, edited file": ("insufficient_evidence", "r2"),
    "rollback": ("promote", "r1"),
}
"""Verdict and active revision after each step. The demo fails when reality differs; it never asserts a latency."""

REASONS = {
    "r2 unmeasured": "no_evidence",
    "r3 measured": "quality.basics: margin_exceeded",
    "r4 measured": "more pairs needed",
    "r4, evidence of r2": "not counted",
    "r4, edited file": "tampered",
}
"""What must be among the reasons of a step."""


def tell(teller: "Teller", manifest: Mapping[str, Any]) -> Traffic:
    """Run the story; returns the client, still streaming."""
    say, workspace = teller.say, teller.workspace
    revisions = {"r1": _revision(manifest, "q4_1", slots=4)}
    say("r1 (SmolLM2 135M, Q4_1) is declared and deployed: the first revision of the service")
    workspace.declare(revisions, None)
    teller.release("r1 bootstrap", "up")
    traffic = Traffic(f"http://{workspace.listen}/v1", SERVICE)
    traffic.start()
    teller.traffic = traffic
    say("a client streams through the stable address from now on")

    revisions["r2"] = _revision(manifest, "q4_1", slots=8)
    _candidate(teller, revisions, "r2", "the same weights with eight slots instead of four")
    revisions["r3"] = _revision(manifest, "layers20", slots=4)
    _candidate(teller, revisions, "r3", "the first 20 of 30 layers: faster, and broken")
    revisions["r4"] = _revision(manifest, "q8_0", slots=4)
    _candidate(teller, revisions, "r4", "the same model as Q8_0: other answers here and there")

    say("somebody offers evidence of r2 as evidence of r4")
    with teller.evidence_changed() as evidence:
        _relabel(evidence, "r2", RevisionSpec(name="r4", **revisions["r4"]))
        teller.release("r4, evidence of r2", "up")
    say("somebody edits a result file of r4 after it was measured")
    with teller.evidence_changed() as evidence:
        _edit(evidence / "r4")
        teller.release("r4, edited file", "up")

    say("rollback to r1, which is still running")
    teller.release("rollback", "rollback", "--reason", "shown in the demo")
    return traffic


def _candidate(teller: "Teller", revisions: Mapping[str, Any], name: str, what: str) -> None:
    teller.say(f"{name} is declared as the candidate: {what}")
    teller.workspace.declare(revisions, name)
    teller.release(f"{name} unmeasured", "up")
    teller.say(f"{name} and the active revision are measured under the same load, away from user traffic")
    teller.collect(*LOAD, *ITEMS, *AGAIN)
    teller.say(f"the guard is asked again about {name}")
    teller.release(f"{name} measured", "up")


def _revision(manifest: Mapping[str, Any], model: str, *, slots: int) -> dict[str, Any]:
    server, weights = manifest["server"], manifest["models"][model]
    settings = {"max_context_len": 512, "max_concurrency": slots, "threads": 1}
    return {
        "model": {"path": str(weights["path"]), "sha256": weights["sha256"]},
        "runtime": {
            "engine": "llama.cpp",
            "version": server["version"],
            "executable": str(server["path"]),
            "sha256": server["sha256"],
            "settings": settings,
        },
    }


def _relabel(evidence: Path, source: str, target: RevisionSpec) -> None:
    """Envelopes of `source` that now claim to be about `target`."""
    for path in (evidence / source).glob("*-candidate-*.evidence.json"):
        envelope = json.loads(path.read_text()) | {"subject": target.subject}
        path.write_text(json.dumps(seal(envelope)))


def _edit(folder: Path) -> None:
    for path in folder.glob("*.quality.jsonl"):
        path.write_text(path.read_text().replace('"score":0', '"score":1'))


def names(teller: "Teller") -> dict[str, str]:
    """Digest → short name of every declared revision."""
    _, status = teller.workspace.infercrane("release", "status")
    return {revision["digest"]: name for name, revision in status["revisions"].items()}


def unexpected(report: Mapping[str, Any]) -> list[str]:
    """What differs from the promise, in words."""
    steps = {step["name"]: step for step in report["steps"]}
    found = [f"{name}: did not happen" for name in EXPECTED if name not in steps]
    found += [
        f"{name}: {step['verdict']}, {step['active_after']} serves"
        for name, step in steps.items()
        if (step["verdict"], step["active_after"]) != EXPECTED[name]
    ]
    found += [
        f"{name}: no reason says {text!r}"
        for name, text in REASONS.items()
        if name in steps and text not in " ".join(steps[name]["reasons"])
    ]
    return found + _wrong_for_the_client(report["client"])


def _wrong_for_the_client(client: Mapping[str, Any]) -> list[str]:
    found = [f"{client[what]} requests {what}" for what in ("failed", "truncated") if client[what]]
    found += [f"{name} answered nothing" for name in ("r1", "r2") if not client["revisions_seen"].get(name)]
    if set(client["revisions_seen"]) - {"r1", "r2"}:
        found.append("a revision that was never promoted answered")
    if not client["streams_open_at_flip"]:
        found.append("no stream was open across the flip")
    return found
