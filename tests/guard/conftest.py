"""Builders of evidence folders: small files as a measuring tool would write them, sealed and hashed."""

import functools
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import Decision, decide, load_evidence, load_policy
from pulumi_infercrane.guard.evidence import revision_digest, seal
from pulumi_infercrane.guard.evidence.folder import LoadedEvidence

DIGEST = "sha256:" + "d" * 64
STARTED, ENDED, AS_OF = "2026-11-30T04:00:00Z", "2026-11-30T04:02:00Z", "2026-11-30T05:00:00Z"
SOAK_STARTED, SOAK_S = "2026-11-30T03:30:00Z", 1920.0

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark, quality]
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: benchmark.ttft_p95, margin: 1.0, min_pass: 100, min_compute: 100}
  - {id: quality.basics, margin: 0.05, min_pass: 60}
"""


_loaded = functools.cache(load_policy)


def subject_of(name: str, **changes: Any) -> dict[str, Any]:
    """A revision that differs from others by its engine's arguments."""
    arguments = "sha256:" + hashlib.sha256(name.encode()).hexdigest()
    subject: dict[str, Any] = {
        "model": {"source": "file:model.gguf", "weights_digest": DIGEST},
        "tokenizer_digest": DIGEST,
        "chat_template_sha": DIGEST,
        "runtime": {"image": DIGEST},
        "engine": {"name": "llama.cpp", "version": "b1", "args_digest": arguments},
        "accelerator": {"vendor": "cpu", "sku": "host", "count": 1},
        "parallelism": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
        "provider": "local",
        "region": "local",
    }
    subject |= changes
    return subject | {"revision_digest": revision_digest(subject)}


class Folder:
    """An evidence folder under construction. Sides are told apart by the names of their revisions."""

    def __init__(self, root: Path, candidate: str = "r2", baseline: str = "r1") -> None:
        self.root = root
        self.subjects = {"candidate": subject_of(candidate), "baseline": subject_of(baseline)}
        self.policy = POLICY

    def reseal(self) -> None:
        """After a subject was edited."""
        for subject in self.subjects.values():
            subject["revision_digest"] = revision_digest(subject)

    @staticmethod
    def seconds(n: int, seed: int = 1, scale: float = 1.0) -> list[float]:
        """Plausible times to the first token."""
        source = random.Random(seed)
        return [round(scale * source.lognormvariate(-3, 0.4), 6) for _ in range(n)]

    @property
    def candidate(self) -> str:
        return str(self.subjects["candidate"]["revision_digest"])

    @property
    def baseline(self) -> str:
        return str(self.subjects["baseline"]["revision_digest"])

    def benchmark(
        self,
        role: str,
        ttft: Sequence[float] | None = None,
        failed: int = 0,
        name: str = "",
        header: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        lines: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> Path:
        """A run in which the last `failed` requests got no answer."""
        hair = hair_of(name or role)
        ttft = [value * hair for value in (self.seconds(150) if ttft is None else ttft)]
        records = [request(index, value, ok=index < len(ttft) - failed) for index, value in enumerate(ttft)]
        if lines:
            lines(records)
        head = {"concurrency": 2, "load_model": "closed", "streaming": True, "warmup": 4} | (header or {})
        scenario = {"id": "chat-short", "dataset_digest": DIGEST, "load_model": "closed", "concurrency": 2}
        return self._write("benchmark", role, name or f"benchmark-{role}", head, records, scenario, len(ttft), change)

    def quality(
        self,
        role: str,
        scores: Sequence[float] = (1.0,) * 60,
        name: str = "",
        header: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        lines: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> Path:
        """One pass over the items of task `basics`, or of `header["task"]`."""
        records = [answer(index, score) for index, score in enumerate(scores)]
        if lines:
            lines(records)
        head = {"task": "basics", "metric": "contains", "tasks_digest": DIGEST} | (header or {})
        return self._write(
            "quality", role, name or f"quality-{role}", head, records, {"id": head["task"]}, len(scores), change
        )

    def replay(
        self,
        role: str,
        n: int = 300,
        name: str = "",
        header: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        lines: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> Path:
        """`n` recorded requests answered again, each side with the same texts."""
        records = [replayed(index, hair_of(name or role)) for index in range(n)]
        if lines:
            lines(records)
        head = {"workload_digest": DIGEST, "greedy": True} | (header or {})
        return self._write("replay", role, name or f"replay-{role}", head, records, {"id": "chat-replay"}, n, change)

    def reliability(
        self,
        role: str = "candidate",
        n: int = 600,
        failed: int = 0,
        name: str = "",
        header: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        lines: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> Path:
        """A soak of 32 minutes without an event, in which the last `failed` requests got no answer."""
        spacing = (header or {}).get("duration_s", SOAK_S) / max(n, 1)
        records = [soaked(index, index * spacing, ok=index < n - failed) for index in range(n)]
        if lines:
            lines(records)
        events = {"crashes": 0, "oom_kills": 0, "restarts": 0, "ghost_replicas": 0, "unready_s": 0}
        drills = {"cold_starts_s": [20.0, 22.0, 25.0], "rollback_drill_s": 40.0}
        drain = {"drain": {"streams_open": 4, "streams_completed": 4}}
        head = {"started_at": SOAK_STARTED, "duration_s": SOAK_S} | events | drills | drain | (header or {})
        window = {"started_at": head["started_at"], "ended_at": head.get("ended_at", ENDED)}

        def over_window(envelope: dict[str, Any]) -> None:
            envelope["window"] = window
            if change:
                change(envelope)

        scenario = {"id": "soak"}
        return self._write("reliability", role, name or f"reliability-{role}", head, records, scenario, n, over_window)

    def cost(
        self,
        role: str,
        price: float = 2.0,
        n: int = 150,
        name: str = "",
        header: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        lines: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> Path:
        """A window of two minutes at `price` USD per accelerator and hour, every request good."""
        records = [produced(index) for index in range(n)]
        if lines:
            lines(records)
        prices = {"currency": "USD", "price_source": "list", "price_date": "2026-11-20", "price_per_gpu_hour": price}
        head = prices | {"gpu_count": 1, "duration_s": 120.0} | (header or {})
        scenario = {"id": "chat-short", "dataset_digest": DIGEST, "load_model": "closed", "concurrency": 2}
        return self._write("cost", role, name or f"cost-{role}", head, records, scenario, n, change)

    def every_kind(self) -> "Folder":
        """Evidence of all five kinds, the candidate as good as the baseline."""
        self.both().reliability()
        for role in ("baseline", "candidate"):
            self.replay(role)
            self.cost(role)
        return self

    def both(self) -> "Folder":
        """All four measurements, the candidate as good as the baseline."""
        for role in ("baseline", "candidate"):
            self.benchmark(role, self.seconds(150, seed=len(role)))
            self.quality(role)
        return self

    def decide(self, **changes: Any) -> Decision:
        """The decision on what the folder holds now."""
        policy = _loaded(changes.pop("policy", self.policy))
        evidence = changes.pop("evidence", None) or load_evidence(self.root)
        asked = {
            "service": "chat",
            "stack": "dev",
            "as_of": AS_OF,
            "candidate": self.candidate,
            "baseline": self.baseline,
        }
        return decide(policy, evidence, **(asked | changes))

    def _write(
        self,
        kind: str,
        role: str,
        name: str,
        header: dict[str, Any],
        records: list[dict[str, Any]],
        scenario: dict[str, Any],
        planned: int,
        change: Callable[[dict[str, Any]], None] | None,
    ) -> Path:
        subject = self.subjects[role]
        common = {
            "schema": f"infercrane.{kind}/v1",
            "tool_version": "0.1",
            "revision_digest": subject["revision_digest"],
            "planned": planned,
            "started_at": STARTED,
            "ended_at": ENDED,
        }
        head = {key: value for key, value in (common | header).items() if value is not None}
        raw = "".join(json.dumps(line) + "\n" for line in [head, *records]).encode()
        return self.write_raw(kind, role, name, raw, scenario, planned, change)

    def write_raw(
        self,
        kind: str,
        role: str,
        name: str,
        raw: bytes,
        scenario: dict[str, Any] | None = None,
        planned: int = 150,
        change: Callable[[dict[str, Any]], None] | None = None,
    ) -> Path:
        """Any bytes as the primary file of a sealed envelope."""
        self.root.mkdir(exist_ok=True, parents=True)
        (self.root / f"{name}.{kind}.jsonl").write_bytes(raw)
        envelope = self.envelope(kind, role, f"{name}.{kind}.jsonl", raw, scenario or {"id": "chat-short"}, planned)
        if change:
            change(envelope)
        path = self.root / f"{name}.evidence.json"
        path.write_text(json.dumps(seal(envelope)))
        return path

    def measured(
        self,
        role: str,
        tool: str,
        version: str,
        parts: Mapping[str, Any],
        kind: str = "benchmark",
        planned: int | None = None,
        select: dict[str, Any] | None = None,
        scenario: dict[str, Any] | None = None,
        name: str = "",
        change: Callable[[dict[str, Any]], None] | None = None,
    ) -> Path:
        """Files of any tool, by their part, under a sealed envelope; an object is written as JSON, a hair off."""
        self.root.mkdir(exist_ok=True, parents=True)
        name = name or f"{tool}-{role}"
        files = []
        for part, content in parts.items():
            raw = content if isinstance(content, bytes) else json.dumps(off_by(hair_of(name), content)).encode()
            (self.root / f"{name}.{part}").write_bytes(raw)
            files.append(self.envelope(kind, role, f"{name}.{part}", raw, {}, 0)["files"][0])
            files[-1] |= {"part": part, "tool": tool, "tool_version": version}
        if select:
            files[0]["select"] = select
        envelope = self.envelope(kind, role, "", b"", scenario or {"id": "chat-short"}, planned or 0)
        envelope |= {"files": files}
        if planned is None:
            del envelope["planned"]
        if change:
            change(envelope)
        path = self.root / f"{name}.evidence.json"
        path.write_text(json.dumps(seal(envelope)))
        return path

    def summary(self, role: str, run: Mapping[str, Any], name: str = "", **about: Any) -> Path:
        """A file of vllm-bench."""
        return self.measured(role, "vllm-bench", "0.33.0", {"primary": run}, name=name or f"summary-{role}", **about)

    def envelope(
        self, kind: str, role: str, path: str, raw: bytes, scenario: dict[str, Any], planned: int
    ) -> dict[str, Any]:
        file = {
            "part": "primary",
            "path": path,
            "sha256": hashlib.sha256(raw).hexdigest(),
            "size": len(raw),
            "media": "application/jsonl",
            "tool": "infercrane",
            "tool_version": "0.1",
        }
        return {
            "schema": "infercrane.evidence/v1",
            "kind": kind,
            "role": role,
            "files": [file],
            "subject": self.subjects[role],
            "scenario": scenario,
            "window": {"started_at": STARTED, "ended_at": ENDED},
            "planned": {"requests": planned},
        }


def hair_of(name: str) -> float:
    """By how much the times of this run are off: no two runs take exactly as long, and no judged figure shows it."""
    return 1 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:2]) * 1e-15


def off_by(hair: float, document: Any, key: str = "") -> Any:
    """The document with its times multiplied: a whole number may be a count."""
    if isinstance(document, Mapping):
        return {name: off_by(hair, value, name) for name, value in document.items()}
    if isinstance(document, list):
        return [off_by(hair, value, key) for value in document]
    is_time = isinstance(document, float) and (key.endswith("_ms") or not document.is_integer())
    return document * hair if is_time else document


def request(index: int, ttft: float, ok: bool = True) -> dict[str, Any]:
    """One line of a benchmark file: 48 tokens at 10 ms each."""
    line: dict[str, Any] = {"id": f"{index:04d}", "block": index // 25, "start_s": index * 0.5}
    if not ok:
        return line | {"outcome": "http_error", "error": "503"}
    figures = {"ttft_s": ttft, "tpot_s": 0.01, "e2e_s": ttft + 0.47, "in_tokens": 30, "out_tokens": 48}
    return line | figures | {"token_source": "usage", "outcome": "complete", "finish_reason": "length"}


def answer(index: int, score: float) -> dict[str, Any]:
    """One line of a quality file; the text depends on item and score."""
    text = hashlib.sha256(f"{index} {score}".encode()).hexdigest()
    line = {"id": f"{index:04d}", "score": score, "outcome": "complete", "finish_reason": "stop"}
    return line | {"empty": False, "text_sha256": text}


def summary_run(n: int = 2000, failed: int = 0, scale: float = 1.0, concurrency: int = 8) -> dict[str, Any]:
    """A closed loop as vllm-bench writes it without --save-detailed: 48 tokens at 10 ms, `scale` times as slow."""
    good, whole = n - failed, 0.52 * scale
    rps = concurrency / whole
    times = {"ttft": (50.0, 48.0, 90.0, 120.0), "tpot": (10.0, 10.0, 11.0, 12.0), "e2el": (520.0, 518.0, 560.0, 600.0)}
    names = ("mean", "median", "p95", "p99")
    return {
        "num_prompts": n,
        "request_rate": "inf",
        "max_concurrency": concurrency,
        "duration": good / rps,
        "completed": good,
        "failed": failed,
        "total_input_tokens": 30 * good,
        "total_output_tokens": 48 * good,
        "request_throughput": rps,
        "output_throughput": 48 * rps,
        **{f"{name}_{metric}_ms": x * scale for metric, xs in times.items() for name, x in zip(names, xs, strict=True)},
    }


@pytest.fixture(name="summary_run")
def _summary_run() -> Callable[..., dict[str, Any]]:
    return summary_run


@pytest.fixture(scope="session")
def samples() -> Path:
    """Real files of real tools, trimmed, by the name of the tool."""
    return Path(__file__).parent / "samples"


def replayed(index: int, hair: float = 1.0) -> dict[str, Any]:
    """One line of a replay file: every fourth request asks for JSON, every fifth for a tool call."""
    text = hashlib.sha256(f"text {index}".encode()).hexdigest()
    line: dict[str, Any] = {"id": f"{index:04d}", "outcome": "complete", "finish_reason": "stop", "text_sha256": text}
    e2e_s = (0.5 + index % 11 / 50 + index / 1e6) * hair
    line |= {"out_tokens": 40 + index % 7, "ttft_s": 0.05, "e2e_s": e2e_s, "refused": False}
    if index % 4 == 0:
        line["structured"] = True
    if index % 5 == 0:
        line["tool_calls"] = "sha256:" + hashlib.sha256(f"call {index}".encode()).hexdigest()
    return line


def soaked(index: int, start_s: float, ok: bool = True) -> dict[str, Any]:
    """One line of a reliability file."""
    line: dict[str, Any] = {"id": f"{index:04d}", "start_s": round(start_s, 3)}
    return line | ({"outcome": "complete", "e2e_s": 0.5} if ok else {"outcome": "http_error"})


def produced(index: int) -> dict[str, Any]:
    """One line of a cost file."""
    return {"id": f"{index:04d}", "outcome": "complete", "in_tokens": 30, "out_tokens": 48, "good": True}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "evidence")


@pytest.fixture(name="subject_of")
def _subject_of() -> Callable[..., dict[str, Any]]:
    return subject_of


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Folder]:
    return lambda **names: Folder(tmp_path_factory.mktemp("evidence"), **names)


@pytest.fixture
def loaded(folder: Any) -> Callable[..., LoadedEvidence]:
    """`loaded(tool, version, parts, **of_envelope)`: a candidate's files, read."""

    def load(tool: str, version: str, parts: Mapping[str, bytes], **of_envelope: Any) -> LoadedEvidence:
        folder.measured("candidate", tool, version, parts, **({"kind": "quality"} | of_envelope))
        (item,) = load_evidence(folder.root).items
        return item

    return load
