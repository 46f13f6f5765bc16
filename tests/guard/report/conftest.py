"""Decisions of every type, with what a report may show beside them."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pulumi_infercrane.guard import bootstrap, load_evidence, load_policy, rollback
from pulumi_infercrane.guard.report import Context, find_report

DIGEST = "sha256:" + "0" * 64
COMMON = {"service": "chat", "stack": "dev", "as_of": "2026-11-30T05:00:00Z"}
HOSTILE = "</title></style>]]><script>alert(1)</script>|`*_[x](javascript:1)@all #1 %0A,:\r\n::error::x\x00\u202e\ud800"


@dataclass(frozen=True)
class Decided:
    """A record and the context it is shown in."""

    record: Mapping[str, Any]
    context: Context

    def report(self, name: str) -> str:
        return find_report(name).render(self.record, self.context)


def decision_on(folder, policy: str) -> Decided:
    """The decision on what a folder holds now."""
    lines = {rule.id: rule.line for rule in load_policy(policy).rules}
    context = Context("policy.yaml", lines, load_evidence(folder.root), "https://ci.example/run/1")
    return Decided(folder.decide(policy=policy).record, context)


@pytest.fixture
def decided(folder) -> Callable[[], Decided]:
    """The decision on what the folder of a test holds now."""
    return lambda: decision_on(folder, folder.policy)


@pytest.fixture(scope="session")
def promoted(new_folder) -> Decided:
    folder = new_folder().both()
    return decision_on(folder, folder.policy)


@pytest.fixture(scope="session")
def rejected(new_folder) -> Decided:
    """40 answers lost of 60, and a latency that cannot be judged yet."""
    folder = new_folder().both()
    folder.quality("candidate", [0.0] * 40 + [1.0] * 20)
    return decision_on(folder, folder.policy.replace("min_pass: 100", "min_pass: 340"))


@pytest.fixture(scope="session")
def unmeasured(new_folder) -> Decided:
    """No quality evidence about the candidate."""
    folder = new_folder().both()
    (folder.root / "quality-candidate.evidence.json").unlink()
    return decision_on(folder, folder.policy)


@pytest.fixture(scope="session")
def first(new_folder) -> Decided:
    folder = new_folder()
    policy = load_policy(folder.policy + "bootstrap: true\n")
    return Decided(bootstrap(policy, candidate=DIGEST, **COMMON).record, Context())


@pytest.fixture(scope="session")
def rolled_back(new_folder) -> Decided:
    folder = new_folder()
    decision = rollback(target=DIGEST, active=folder.candidate, policy_digest=DIGEST, reason="slow", **COMMON)
    return Decided(decision.record, Context())


@pytest.fixture(scope="session")
def overridden(rolled_back) -> Decided:
    reason = "override: on fire; see the incident (ordered by ann)"
    return Decided({**rolled_back.record, "decision_type": "override", "reasons": [reason]}, Context())


@pytest.fixture(scope="session")
def hostile(rejected) -> Decided:
    """Every text that evidence or a policy can bring is an attack."""
    record = copy.deepcopy(dict(rejected.record))
    record |= {
        "service": HOSTILE,
        "stack": HOSTILE,
        "change": [HOSTILE],
        "notes": [HOSTILE],
        "required_kinds": [HOSTILE],
    }
    record["reasons"] = [HOSTILE, f"{HOSTILE}; {HOSTILE}"]
    for rule in record["rules"]:
        rule |= {"rule": rule["rule"] + HOSTILE, "detail": HOSTILE, "needs": HOSTILE, "notes": [HOSTILE]}
    for entry in record["evidence"]:
        entry["reasons"] = [HOSTILE]
    waiver = dict.fromkeys(("rule", "owner", "reason", "state", "expires_at"), HOSTILE)
    record["waivers"] = [waiver]
    lines = {rule["rule"]: 5 for rule in record["rules"]}
    names = dict.fromkeys((record["candidate"], record["baseline"]), HOSTILE)
    return Decided(record, Context(HOSTILE, lines, rejected.context.evidence, "https://x/" + HOSTILE, names))


@pytest.fixture(scope="session")
def crowded(rejected) -> Decided:
    """More rules than any surface has room for; the one that fails comes last."""
    failing = next(rule for rule in rejected.record["rules"] if rule["outcome"] == "fail")
    unknown = {**failing, "outcome": "unknown", "reasons": ["interval_straddles"]}
    many = [{**unknown, "rule": f"quality.task{index}", "detail": "x" * 400} for index in range(2000)]
    return Decided({**rejected.record, "rules": [*many, failing]}, rejected.context)


@pytest.fixture(params=["promoted", "rejected", "unmeasured", "first", "rolled_back", "overridden", "hostile"])
def any_decision(request) -> Decided:
    """One of every type and verdict, and one full of attacks."""
    return request.getfixturevalue(request.param)
