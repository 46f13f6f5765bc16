"""The windows of a canary step on real parts: counted by several workers, and vouched for by a key."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import pytest

from pulumi_infercrane.guard import load_key, load_windows
from tests.e2e.lab import POLICY, SERVICE, STACK, Lab
from tests.e2e.test_canary import STEPS

pytestmark = [pytest.mark.engine, pytest.mark.runtime]

HALF = {"r1": 50, "r2": 50}
MORE_S = 8
"""Of traffic: the router begins to count a moment after the step began, and 95 % of its time must be watched."""


def write_policy(lab: Lab, trusted: str = "") -> None:
    """One step: half of the traffic, then all of it."""
    rules = POLICY.partition("  - {id")[0] + STEPS.replace("[30, 60, 100]", "[50, 100]")
    (lab.project / "policy.yaml").write_text(rules + trusted)


def ask(lab: Lab, seconds: float) -> Counter[tuple[str, str]]:
    """Streams, each on a connection of its own; counts by the process of the router and the revision that answered."""
    answers: Counter[tuple[str, str]] = Counter()
    body = {"model": SERVICE, "stream": True, "max_tokens": 8, "messages": [{"role": "user", "content": "the model"}]}
    with httpx.Client(trust_env=False, timeout=30, headers={"Connection": "close"}) as client:
        until = monotonic() + seconds
        while monotonic() < until:
            answer = client.post(f"{lab.url}/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            process, _, _ = answer.headers["x-request-id"].partition("-")
            answers[process, answer.headers["x-infercrane-revision"]] += 1
            sleep(0.03)
    return answers


def steps_on(lab: Lab, *options: str) -> tuple[dict[str, Any], Counter[tuple[str, str]]]:
    """The first `up` that does not hold, with traffic before each; and all that answered it."""
    answers: Counter[tuple[str, str]] = Counter()
    for _ in range(5):
        answers += ask(lab, MORE_S)
        result = lab.infercrane("up", "--json", "-s", STACK, *options, code=None).document
        if result["action"] != "hold":
            return result, answers
    raise AssertionError(f"undecided: {result['reasons']}")


def by_revision(answers: Counter[tuple[str, str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for (_, revision), count in answers.items():
        total[revision] += count
    return total


def counted(lab: Lab) -> Counter[str]:
    """Requests by revision, in all windows that were taken."""
    total: Counter[str] = Counter()
    for loaded in load_windows(sorted(lab.place.windows.glob("*.window.json"))):
        assert loaded.window, loaded.problem
        assert not loaded.window.lost
        total.update({revision: one.attempted for revision, one in loaded.window.bindings.items()})
    return total


def trusting(lab: Lab, keys: Mapping[Path, str]) -> str:
    """New keys, and the lines of a policy that trusts each with one kind."""
    lines = "trust:\n  keys:\n"
    for path, kind in keys.items():
        entry = lab.guard("guard", "keygen", str(path)).out.partition("  keys:\n")[2]
        lines += re.sub(r"kinds: \[.*\]", f"kinds: [{kind}]", entry)
    return lines


def test_a_step_goes_on_by_windows_of_all_workers_that_a_trusted_key_vouches_for(lab: Lab, tmp_path: Path) -> None:
    bench, router = tmp_path / "bench.pem", tmp_path / "router.pem"
    lab.router = {"workers": 2}
    write_policy(lab, trusting(lab, {bench: "benchmark", router: "window"}))
    lab.measured(signing_key=bench)
    assert lab.up()["weights"] == HALF
    answers = ask(lab, 1)

    held = lab.infercrane("up", "--json", "-s", STACK, "--sign-with", str(bench), code=4).document
    assert (held["action"], held["weights"]) == ("hold", HALF)
    assert "untrusted_key" in " ".join(held["reasons"]), "bench may attest benchmarks, and no windows"
    windows = sorted(str(path) for path in lab.place.windows.glob("*.window.json"))
    assert lab.guard("guard", "sign", *windows, "--key", str(router)).code == 0

    flipped, more = steps_on(lab, "--sign-with", str(router))
    assert (flipped["action"], flipped["active_after"]) == ("flip", "r2")
    assert load_key(router).id in flipped["record"]["signers"]
    answers += more
    assert len({process for process, _ in answers}) == 2, "each worker had some"
    assert counted(lab) == by_revision(answers)
