"""Wrong input on the real engine: a clear error with the way out; nothing changed, nothing lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.guard import seal
from tests.e2e.lab import STACK, Lab, taken_port

pytestmark = [pytest.mark.engine, pytest.mark.runtime]


def serving(lab: Lab) -> dict[str, object]:
    """r1 serves."""
    revisions = {"r1": lab.revision()}
    lab.declare(revisions)
    lab.up()
    return revisions


def refused(lab: Lab, *expected: str, code: int = 1) -> None:
    """`infercrane up` fails, says why and the way out; r1 goes on serving, and no decision was recorded."""
    decisions = lab.place.ledger.read_text()
    answer = lab.infercrane("up", "-s", STACK, code=code)
    for text in expected:
        assert text in answer.text, answer.text
    assert "Traceback" not in answer.text
    assert lab.served_by() == "r1"
    assert lab.place.ledger.read_text() == decisions


def test_the_active_revision_is_removed_from_the_program(lab: Lab) -> None:
    serving(lab)
    lab.declare({"r2": lab.revision("tiny-b")}, "r2")
    refused(lab, "active revision", "may not be removed while it serves", "declare it again")


def test_a_first_deployment_with_two_revisions_needs_initial_active(lab: Lab) -> None:
    lab.declare({"r1": lab.revision(), "r2": lab.revision("tiny-b")})
    answer = lab.infercrane("up", "-s", STACK, code=1)
    assert "say with initialActive which one serves first" in answer.text
    lab.declare({"r1": lab.revision(), "r2": lab.revision("tiny-b")}, initialActive="r2")
    assert lab.up()["active_after"] == "r2"


def test_a_policy_without_bootstrap_does_not_let_a_first_revision_serve(lab: Lab) -> None:
    policy = lab.project / "policy.yaml"
    policy.write_text(policy.read_text().replace("bootstrap: true\n", ""))
    lab.declare({"r1": lab.revision()})
    assert "bootstrap" in lab.infercrane("up", "-s", STACK, code=1).text


def test_a_policy_without_required_kinds_decides_nothing(lab: Lab) -> None:
    revisions = serving(lab)
    policy = lab.project / "policy.yaml"
    policy.write_text(policy.read_text().replace("required_kinds: [benchmark]\n", ""))
    lab.declare(revisions | {"r2": lab.revision("tiny-b")}, "r2")
    refused(lab, "policy.yaml", "required_kinds")


def other_model(path: str, sha256: str | None = None) -> Callable[[Lab], dict[str, object]]:
    """r2 with another model file."""

    def declare(lab: Lab) -> dict[str, object]:
        revision = lab.revision("tiny-b")
        model = dict(revision["model"], path=path.format(folder=lab.folder))
        return revision | {"model": model | ({"sha256": sha256} if sha256 else {})}

    return declare


def test_a_plan_that_would_restart_what_serves_is_refused(lab: Lab) -> None:
    serving(lab)
    lab.declare({"r1": lab.revision() | {"port": free_port()}})
    refused(lab, "the plan would", "r1-", "which serves or is kept for a rollback")


def test_a_plan_that_would_restart_the_router_is_refused(lab: Lab) -> None:
    serving(lab)
    lab.declare({"r1": lab.revision()}, router={"listen": f"127.0.0.1:{free_port()}"})
    refused(lab, "the plan would", "chat-router", "which serves or is kept for a rollback")


def test_a_model_file_that_is_not_there(lab: Lab) -> None:
    revisions = serving(lab)
    lab.declare(revisions | {"r2": other_model("{folder}/none.gguf")(lab)}, "r2")
    refused(lab, "Pulumi.dev.yaml:", "model.path of revision r2", "none.gguf: no such file", code=2)


def test_a_model_file_with_another_checksum(lab: Lab) -> None:
    revisions = serving(lab)
    lab.declare(revisions | {"r2": other_model(lab.runtimes["models"]["tiny-c"]["path"])(lab)}, "r2")
    refused(lab, "sha256", lab.runtimes["models"]["tiny-b"]["sha256"])


def test_a_truncated_model_file(lab: Lab) -> None:
    """Declared with the digest it really has: only the engine can tell."""
    revisions = serving(lab)
    lab.declare(revisions | {"r2": lab.revision("tiny-corrupt")}, "r2")
    refused(lab, "model_corrupt", "last log lines")
    lab.declare(revisions)
    assert lab.up()["active_after"] == "r1"


def test_a_server_that_is_missing(lab: Lab) -> None:
    revisions = serving(lab)
    broken = lab.revision("tiny-b")
    broken["runtime"] = dict(broken["runtime"], executable=str(lab.folder / "llama-server"))
    lab.declare(revisions | {"r2": broken}, "r2")
    refused(lab, "runtime.executable of revision r2", "llama-server: not there, or not executable; install", code=2)


def test_a_server_that_dies_at_the_start(lab: Lab) -> None:
    revisions = serving(lab)
    broken = lab.revision("tiny-b")
    broken["runtime"] = dict(broken["runtime"], args=["--no-such-flag"])
    lab.declare(revisions | {"r2": broken}, "r2")
    refused(lab, "unknown_engine_flag")


def test_a_server_that_is_healthy_but_answers_errors(lab: Lab) -> None:
    revisions = serving(lab)
    lab.declare(revisions | {"r2": lab.revision("tiny-answers-500")}, "r2")
    refused(lab, "generation_failed")


def test_a_port_that_is_taken(lab: Lab) -> None:
    revisions = serving(lab)
    with taken_port() as port:
        lab.declare(revisions | {"r2": lab.revision("tiny-b") | {"port": port}}, "r2")
        refused(lab, str(port), "taken")


def test_the_routers_own_port_is_taken(lab: Lab) -> None:
    with taken_port() as port:
        lab.declare({"r1": lab.revision()}, router={"listen": f"127.0.0.1:{port}"})
        assert str(port) in lab.infercrane("up", "-s", STACK, code=1).text
    lab.declare({"r1": lab.revision()})
    assert lab.up()["active_after"] == "r1"


def test_a_ledger_with_a_broken_chain(lab: Lab) -> None:
    revisions = serving(lab)
    ledger: Path = lab.place.ledger
    ledger.write_text(ledger.read_text().replace('"bootstrap"', '"promotion"', 1))
    lab.declare(revisions | {"r2": lab.revision("tiny-b")}, "r2")
    refused(lab, "ledger.jsonl:1: the chain is broken")
    assert "ledger.jsonl:1" in lab.infercrane("doctor", "-s", STACK, code=1).text


def test_a_missing_passphrase(lab: Lab) -> None:
    serving(lab)
    environment = dict(lab.environment)
    lab.environment = {k: v for k, v in environment.items() if k != "PULUMI_CONFIG_PASSPHRASE"}
    answer = lab.infercrane("up", "-s", STACK, code=1)
    lab.environment = environment
    assert "passphrase" in answer.text
    assert lab.served_by() == "r1"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda path: path.write_text("not json"), "not_json"),
        (lambda path: path.write_text(path.read_text().replace('"schema"', '"x": NaN, "schema"', 1)), "non_finite"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "not_json"),
        (lambda path: edit(path.with_name(path.name.replace(".evidence.json", ".benchmark.jsonl"))), "tampered"),
        (lambda path: relabel(path, "sha256:" + "0" * 64), "binding"),
    ],
    ids=["not JSON", "NaN", "truncated", "edited after measuring", "of another revision"],
)
def test_evidence_that_cannot_be_read_does_not_count(lab: Lab, change: Callable[[Path], object], expected: str) -> None:
    revisions = serving(lab)
    lab.declare(revisions | {"r2": lab.revision(max_concurrency=4)}, "r2")
    lab.up(code=4)
    lab.collect()
    for path in list(lab.evidence.rglob("*-candidate-*.evidence.json")):
        change(path)
    result = lab.up(code=4)
    assert result["active_after"] == "r1"
    assert expected in str(result["record"])


def edit(path: Path) -> None:
    path.write_text(path.read_text().replace('"outcome":"complete"', '"outcome":"truncated"', 1))


def relabel(path: Path, digest: str) -> None:
    """The envelope of one revision, offered for another."""
    envelope = json.loads(path.read_text())
    envelope["subject"]["revision_digest"] = digest
    path.write_text(json.dumps(seal(envelope)))
