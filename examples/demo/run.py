"""`make demo`: a service is released four times, on real parts, while a client streams through it.

Everything it makes lies in `.demo/`; what can be used again (engine, model server, models) in the cache folder.
"""

import argparse
import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from examples.demo import story
from examples.demo.clean import clean
from examples.demo.traffic import Traffic
from examples.demo.workspace import SERVICE, Workspace
from pulumi_infercrane.components.supervision.ports import free_port
from tests.engine.engine import prepare
from tests.runtimes import prepare as runtimes

CHECKOUT = Path(__file__).parents[2]
FOREIGN = re.compile(r"(\d+) set aside as binding_mismatch")
ABOUT_OTHERS = r"\1 about other revisions"
"""Evidence of earlier candidates lies in the same folder: it is set aside as it should be, which is no fault of it."""


@dataclass
class Step:
    """One line of the report."""

    name: str
    candidate: str
    verdict: str
    active_before: str
    active_after: str
    seconds: float
    reasons: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keep", action="store_true", help="leave everything running at the end")
    options.add_argument("--inside", type=Path, default=CHECKOUT, help="folder in which `.demo/` is made and removed")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    folder = chosen.inside.absolute() / ".demo"
    started = time.monotonic()
    clean(folder)
    workspace, engine_version, models = _prepared(folder)
    try:
        report = _told(Teller(workspace, started), models) | {"engine_version": engine_version}
    except BaseException:
        clean(folder)
        raise
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    _table(report)
    if chosen.keep:
        _how_to_go_on(workspace)
    else:
        clean(folder, keep=("report.json",))
    print(f"\n{folder / 'report.json'} written; {time.monotonic() - started:.0f} s in all")
    if wrong := story.unexpected(report):
        sys.exit("not what the demo promises: " + "; ".join(wrong))


def _prepared(folder: Path) -> tuple[Workspace, str, dict[str, Any]]:
    """The workspace, the engine's version, and what there is of servers and models."""
    engine = prepare()
    models = runtimes.prepare(demo=True)
    environment = engine.environment(folder / "pulumi", folder / "backend")
    workspace = Workspace(folder, environment, f"127.0.0.1:{free_port()}")
    workspace.create()
    return workspace, engine.version, models


def _told(teller: "Teller", models: dict[str, Any]) -> dict[str, Any]:
    traffic = story.tell(teller, models)
    traffic.stop()
    return _report(teller, traffic)


class Teller:
    """Says what happens and remembers it."""

    def __init__(self, workspace: Workspace, started: float) -> None:
        self.workspace, self.started = workspace, started
        self.steps: list[Step] = []
        self.traffic: Traffic | None = None

    def say(self, text: str) -> None:
        print(f"\n[{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    def release(self, name: str, *arguments: str) -> Step:
        """Run one `infercrane` operation and remember what came of it."""
        before = time.monotonic()
        print(f"        step {len(self.steps) + 1} of {len(story.EXPECTED)}: {name}", flush=True)
        with self._streams_overlapping():
            _, result = self.workspace.infercrane(*arguments)
        step = Step(
            name=name,
            candidate=result["candidate"] or result["active_after"],
            verdict=result["verdict"],
            active_before=result["active_before"],
            active_after=result["active_after"],
            seconds=round(time.monotonic() - before, 1),
            reasons=[*result["reasons"], *_not_counted(result["record"])],
            record=result["record"],
        )
        self.steps.append(step)
        print(f"        → {_outcome(asdict(step))}; {step.active_after} serves ({step.seconds} s)")
        for reason in step.reasons[:6]:
            print(f"          {FOREIGN.sub(ABOUT_OTHERS, reason)}")
        return step

    @contextmanager
    def _streams_overlapping(self) -> Iterator[None]:
        """Whenever the route may move, a stream is open; measurements are left in peace."""
        if self.traffic is None:
            yield
            return
        self.traffic.overlapping = True
        yield
        self.traffic.overlapping = False

    def collect(self, *arguments: str) -> None:
        self.workspace.infercrane("collect", *arguments)

    @contextmanager
    def evidence_changed(self) -> Iterator[Path]:
        """Let a step do what it likes to the evidence folder, and put it back afterwards."""
        kept = self.workspace.root / "evidence-kept"
        shutil.copytree(self.workspace.evidence, kept)
        try:
            yield self.workspace.evidence
        finally:
            shutil.rmtree(self.workspace.evidence)
            kept.rename(self.workspace.evidence)


def _outcome(step: Mapping[str, Any]) -> str:
    """The verdict; a rollback has none of its own: it needs no evidence and always moves the route."""
    return "rollback" if step["name"] == "rollback" else str(step["verdict"])


def _not_counted(record: dict[str, Any]) -> list[str]:
    """Evidence about the candidate that was looked at and left out, and why."""
    own = [piece for piece in record.get("evidence", ()) if piece.get("revision") == record["candidate"]]
    return [f"not counted: {', '.join(piece['files'])}: {piece['reasons'][0]}" for piece in own if piece["reasons"]]


def _report(teller: Teller, traffic: Traffic) -> dict[str, Any]:
    """What the demo promises, with digests of revisions replaced by their names."""
    names = story.names(teller)
    client = traffic.report()
    seen: dict[str, int] = client["revisions_seen"]  # type: ignore[assignment]
    digests = {name: digest for digest, name in names.items()}
    return {
        "steps": [{k: v for k, v in asdict(step).items() if k != "record"} for step in teller.steps],
        "decisions": [step.record for step in teller.steps],
        "client": client
        | {
            "revisions_seen": {names.get(digest, digest): count for digest, count in seen.items()},
            "streams_open_at_flip": traffic.open_across(digests["r1"], digests["r2"]),
        },
    }


def _table(report: dict[str, Any]) -> None:
    client = report["client"]
    total = max(client["requests"], 1)
    print(f"\n{'step':20}{'serves':8}{'verdict':23}{'deciding rule':27}estimate [bounds] against limit")
    for step, decision in zip(report["steps"], report["decisions"], strict=True):
        rule, bounds = _deciding(step, decision)
        print(f"{step['name']:20}{step['active_after']:8}{_outcome(step):23}{rule:27}{bounds}")
    print(f"\n{'revision':20}traffic share")
    for name, count in sorted(client["revisions_seen"].items()):
        print(f"{name:20}{count / total:6.1%}  ({count} of {client['requests']} answers)")
    print(
        f"\nclient: {client['requests']} streams, {client['failed']} failed, {client['truncated']} truncated, "
        f"{client['streams_open_at_flip']} open across the flip to r2"
    )


def _deciding(step: dict[str, Any], decision: dict[str, Any]) -> tuple[str, str]:
    """The rule the first reason is about, and its figures; a reason without a rule stands for itself."""
    first = step["reasons"][0]
    rule = next((rule for rule in decision["rules"] if first.startswith(f"{rule['rule']}:")), None)
    if rule is None or "lo" not in rule:
        return first.partition(":")[0], first.partition(": ")[2][:70]
    return rule["rule"], f"{rule['estimate']:.3g} [{rule['lo']:.3g}, {rule['hi']:.3g}] against {rule['limit']:.3g}"


def _how_to_go_on(workspace: Workspace) -> None:
    url = f"http://{workspace.listen}/v1"
    body = json.dumps({"model": SERVICE, "messages": [{"role": "user", "content": "Hello"}]})
    print(f"\nstill running: {url}\n  curl -s {url}/chat/completions -H 'content-type: application/json' -d '{body}'")
    print("`make clean-demo` stops and removes it")


if __name__ == "__main__":
    main()
