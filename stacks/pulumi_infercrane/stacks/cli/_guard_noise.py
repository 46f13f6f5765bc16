"""`infercrane guard noise`: how much of what a policy judges is chance.

Every `infercrane guard` command loads this module; what only measuring needs is imported when it measures.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard import EvidenceSet, GuardError, Policy, load_evidence, revision_digest
from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect import Target, find
from pulumi_infercrane.guard.noise import Noise, RuleNoise, noise_of
from pulumi_infercrane.stacks.cli._unusable import unusable_input
from pulumi_infercrane.stacks.policy_file import read_policy

_File = click.Path(exists=True, dir_okay=False, path_type=Path)
_Folder = click.Path(file_okay=False, path_type=Path)


@click.command("noise")
@click.option("--evidence", "folder", type=_Folder, required=True, help="The two runs, or where --url writes them.")
@click.option("--policy", "policy_file", type=_File, required=True, help="Policy file.")
@click.option("--revision", help="Revision digest; not needed when only one was measured twice.")
@click.option("--url", help="Measure this endpoint twice first, for example http://127.0.0.1:8101.")
@click.option("--model", help="Model name to ask the endpoint for; default: default.")
@click.option("--requests", type=click.IntRange(1), help="Measured requests of each run; default: 1000.")
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens; default: 48.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests under way at once; default: 4.")
@click.option("--max-seconds", type=click.FloatRange(1), help="Seconds both runs may take; default: 3600.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@unusable_input
def noise(
    folder: Path,
    policy_file: Path,
    revision: str | None,
    url: str | None,
    model: str | None,
    as_json: bool,
    **given: float | None,
) -> None:
    """Compare a revision with itself: how often would this policy reject it, and how many requests are enough?

    Takes two runs of one revision, as they are and with their requests dealt anew to two sides many times. Exits 0
    whatever it finds.

    \b
    Example:
      infercrane guard noise --evidence noise/ --policy policy.yaml --url http://127.0.0.1:8101 --model chat
    """
    policy = read_policy(policy_file)
    if url:
        target = _endpoint(url, model or "default")
        _measure_twice(target, folder, {name: value for name, value in given.items() if value is not None})
        revision = target.revision_digest
    evidence = load_evidence(folder)
    revision = revision or _measured_twice(evidence)
    found = noise_of(policy, evidence, revision)
    if as_json:
        click.echo(json.dumps(_document(found, revision), indent=2))
    else:
        click.echo("\n".join(_lines(found, policy, revision)))


def _endpoint(url: str, model: str) -> Target:
    """An endpoint nothing is known about: as its own revision, which no decision on a declared one can take for it."""
    identity = digest({"url": url, "model": model})
    subject: dict[str, Any] = {
        "model": {"source": f"endpoint:{model}", "weights_digest": identity},
        "tokenizer_digest": identity,
        "chat_template_sha": identity,
        "runtime": {"image": identity},
        "engine": {"name": "unknown", "version": "unknown", "args_digest": identity},
        "accelerator": {"vendor": "unknown", "sku": "unknown", "count": 1},
        "parallelism": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
        "provider": "unknown",
    }
    revision = revision_digest(subject)
    return Target("endpoint", revision, subject | {"revision_digest": revision}, url.rstrip("/"), model)


def _measure_twice(target: Target, folder: Path, given: Mapping[str, float]) -> None:
    import asyncio

    from pulumi_infercrane.stacks.cli._common import progress_of

    collector = find("benchmark")
    plan = collector.plan(given)
    with progress_of("noise") as show:
        asyncio.run(collector.collect(target, target, out=folder, plan=plan, progress=show))


def _measured_twice(evidence: EvidenceSet) -> str:
    """The one revision of which some kind was measured twice."""
    runs = Counter(
        (item.envelope.subject.revision_digest, item.envelope.kind)
        for item in evidence.items
        if item.envelope and not item.problem
    )
    found = sorted({revision for (revision, _), number in runs.items() if number > 1})
    if len(found) == 1:
        return found[0]
    listed = "".join(f"\n  {revision}" for revision in found) or " none"
    problems = "".join(f"\n  {line}" for line in evidence.problem_lines)
    raise GuardError(f"say with --revision which one is meant; measured twice are:{listed}{problems}")


# --- what is shown ----------------------------------------------------------------------------------------------


def _lines(found: Noise, policy: Policy, revision: str) -> Iterator[str]:
    yield f"{policy.source} on {revision[:19]}… against itself"
    if found.verdicts:
        counts = ", ".join(f"{verdict} {number}" for verdict, number in sorted(found.verdicts.items()))
        yield f"verdicts of {sum(found.verdicts.values())} comparisons by chance: {counts}"
    for one in found.rules:
        yield f"\n{one.rule.id}: {one.n} a side"
        yield from (f"  {line}" for line in _rule_lines(one))


def _rule_lines(one: RuleNoise) -> Iterator[str]:
    if not one.n:
        yield f"not judged: {one.measured[0].code}: {one.measured[0].detail}"
        return
    if one.dealt:
        yield f"failed {one.share('fail'):.0%}, unknown {one.share('unknown'):.0%} of {len(one.dealt)} by chance"
    if one.spread:
        yield f"nine in ten estimates lie in {one.spread[0]:.4g} … {one.spread[1]:.4g}"
    yield f"as measured: {', '.join(f'{finding.outcome} at {finding.estimate:.4g}' for finding in one.measured)}"
    if one.between_runs:
        yield "the runs differ by more than that: noise between runs, which more requests do not remove; repeat runs"
    if one.rule.relative:
        yield f"margin {one.rule.bound:g}; this noise needs {_or_none(one.margin)} at this number"
    yield f"enough a side for this rule: {_or_none(one.enough)}"


def _or_none(value: float | None) -> str:
    return "more than can be named" if value is None else f"{value:g}"


def _document(found: Noise, revision: str) -> dict[str, Any]:
    rules = [_rule_document(one) for one in found.rules]
    return {"revision_digest": revision, "verdicts": dict(found.verdicts), "rules": rules}


def _rule_document(one: RuleNoise) -> dict[str, Any]:
    return {
        "rule": one.rule.id,
        "n": one.n,
        "rejected": one.share("fail"),
        "unknown": one.share("unknown"),
        "spread": list(one.spread) if one.spread else None,
        "measured": [{"outcome": finding.outcome, "code": finding.code} for finding in one.measured],
        "between_runs": one.between_runs,
        "bound": one.rule.bound,
        "margin_needed": one.margin,
        "enough": one.enough,
    }
