"""What a tired person reads: verdict first, then why, then the figures, then what would settle it."""

import pytest

from pulumi_infercrane.guard import bootstrap, load_policy, rollback
from pulumi_infercrane.guard.printable import short
from pulumi_infercrane.guard.report import Context, find_report, known_reports
from pulumi_infercrane.guard.report.text import render

DIGEST = "sha256:" + "0" * 64
COMMON = {"service": "chat", "stack": "dev", "as_of": "2026-11-30T05:00:00Z"}


def test_reports_are_found_by_name():
    assert "text" in known_reports()
    assert find_report("text").render is render
    with pytest.raises(KeyError):
        find_report("../text")


def test_a_rejection(folder):
    folder.both().quality("candidate", [0.0] * 40 + [1.0] * 20)
    lines = render(folder.decide().record).splitlines()
    assert lines[0] == "REJECT: the active revision keeps serving"
    assert lines[1] == "service chat · stack dev · as of 2026-11-30T05:00:00Z"
    assert lines[4:6] == [
        "because",
        "  quality.basics: margin_exceeded: difference -0.645 [-0.749, -0.542] against -0.05, 40 lost / 0 gained of 60",
    ]
    assert lines[7].split() == ["rule", "estimate", "[lo,", "hi]", "limit", "n", "outcome"]
    assert "quality.basics            H  -0.645    [-0.749, -0.542]  -0.05  60" in "\n".join(lines)


def test_what_would_settle_it_stands_out(folder):
    decision = folder.both().decide(policy=folder.policy.replace("min_pass: 60", "min_pass: 300"))
    assert "      → about 240 more pairs needed" in render(decision.record).splitlines()


def test_evidence_that_does_not_count_is_shown_with_its_reason(folder):
    folder.both()
    (folder.root / "quality-candidate.quality.jsonl").write_bytes(b"")
    text = render(folder.decide().record)
    assert "not used" in text
    assert "tampered: quality-candidate.quality.jsonl was changed after it was measured" in text
    assert "unknown (tampered)" in text


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("form", ["text", "html"])
def test_a_tool_that_did_not_end_well_is_named(folder, decided, code, form):
    folder.both().quality("candidate", change=lambda envelope: envelope["files"][0].update(exit_code=code))
    assert decided().report(form).count(f"its tool ended with exit code {code}") == code


def test_infinite_figures_are_words(folder):
    folder.both().benchmark("candidate", folder.seconds(150), failed=60)
    assert "[inf, inf]" in render(folder.decide().record)


def test_waivers_are_shown(folder):
    policy = folder.policy + (
        "waivers: [{rule: quality.basics, reason: known, owner: ann, "
        f"expires_at: 2026-12-31T00:00:00Z, revision_digest: '{folder.candidate}'}}]\n"
    )
    text = render(folder.both().decide(policy=policy).record)
    assert "waiver of quality.basics by ann until 2026-12-31T00:00:00Z (hard_rule): known" in text


def test_a_promotion_that_opens_a_canary_says_so(folder):
    text = render(folder.both().decide(policy=folder.policy + "canary: {steps: [5, 100]}\n").record)
    assert text.startswith("PROMOTE: the candidate may have the first share of the traffic")
    assert "\n\ncanary: first 5 %\n\n" in text


def test_a_bootstrap_and_a_rollback(folder):
    policy = load_policy(folder.policy + "bootstrap: true\n")
    first = render(bootstrap(policy, candidate=DIGEST, **COMMON).record)
    assert first.startswith("BOOTSTRAP: the first revision of this service may serve")
    assert "not_applicable (bootstrap)" in first
    back = rollback(target=DIGEST, active=folder.candidate, policy_digest=DIGEST, reason="slow", **COMMON)
    assert render(back.record).splitlines()[4:6] == ["because", "  rollback: slow"]


def test_revisions_are_called_as_their_stack_calls_them(rejected):
    digest = rejected.record["candidate"]
    lines = render(rejected.record, Context(names={digest: "r2"})).splitlines()
    assert lines[2].startswith(f"candidate r2 ({short(digest)}) · active {short(rejected.record['baseline'])}")
