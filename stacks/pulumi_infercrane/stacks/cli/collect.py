"""`infercrane collect`."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard import sign_file
from pulumi_infercrane.guard.collect import Target, find, kinds
from pulumi_infercrane.router.control import ControlClient, LiveService, RouterError
from pulumi_infercrane.stacks.cli._common import Chosen, choose, print_json, progress, progress_of, stack_options
from pulumi_infercrane.stacks.cli._keys import key_option, open_key
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.errors import ConfigError, RouterProblem


@click.command("collect")
@stack_options
@click.option(
    "--kind", "chosen_kinds", multiple=True, help="Kind of evidence, repeatable; default: all that can be measured."
)
@click.option("--requests", type=click.IntRange(1), help="Measured requests per side (benchmark).")
@click.option("--max-tokens", type=click.IntRange(1), help="Length of the measured answers (benchmark).")
@click.option("--concurrency", type=click.IntRange(1), help="Requests under way at once (benchmark).")
@click.option("--tasks", type=click.Path(dir_okay=False, path_type=Path), help="Task file (quality).")
@click.option("--items", type=click.IntRange(1), help="Items of the task file to ask (quality).")
@click.option("--max-seconds", type=click.FloatRange(1), help="Bound on the time of each kind.")
@key_option("--sign-with", required=False)
def command(
    stack: str | None,
    directory: Path,
    as_json: bool,
    chosen_kinds: tuple[str, ...],
    requests: int | None,
    max_tokens: int | None,
    concurrency: int | None,
    tasks: Path | None,
    items: int | None,
    max_seconds: float | None,
    key_file: Path | None,
    passphrase_from: str | None,
) -> None:
    """Measure the candidate and the active revision under the same load, and write evidence about both.

    Goes straight to the replicas: user traffic is not touched. Both sides are measured in turn, so that whatever else
    the machine does hits both alike.

    \b
    Example:
      infercrane collect -s prod --kind benchmark --requests 1000 --concurrency 4
    """
    chosen = choose(directory, stack)
    key = open_key(key_file, passphrase_from) if key_file else None  # before an hour of measuring, not after it
    candidate, baseline = asyncio.run(_targets(chosen))
    options = {
        "requests": requests,
        "max_tokens": max_tokens,
        "concurrency": concurrency,
        "tasks": tasks,
        "limit": items,
        "max_seconds": max_seconds,
    }
    given = {name: value for name, value in options.items() if value is not None}
    written = _collect(chosen_kinds or _measurable(given), candidate, baseline, chosen.config.evidence, given)
    if key:
        for path in written:
            sign_file(path, key)
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            click.echo(str(path))


def _measurable(given: Mapping[str, Any]) -> Sequence[str]:
    """Every kind that what was given is enough for: quality, for example, needs a task file."""
    return [kind for kind in kinds() if set(find(kind).needs) <= set(given)]


def _collect(
    chosen: Sequence[str], candidate: Target, baseline: Target, out: Path, given: Mapping[str, Any]
) -> list[Path]:
    written: list[Path] = []
    for kind in chosen:
        collector = find(kind)
        plan = collector.plan(given)
        with progress_of(kind) as show:
            written += asyncio.run(collector.collect(candidate, baseline, out=out, plan=plan, progress=show))
    return written


async def _targets(chosen: Chosen) -> tuple[Target, Target]:
    """The candidate and what serves, where they answer now: asked from the router."""
    config = chosen.config
    if not config.candidate:
        raise ConfigError(f"{chosen.project.settings.name}: no candidate is declared, so there is nothing to compare")
    try:
        async with ControlClient(chosen.project.place.control) as router:
            live = await router.get(config.service)
    except RouterError as error:
        raise RouterProblem(
            f"the router of {config.service} cannot be asked ({error}): run `infercrane up` first"
        ) from error
    if live.active == config.candidate_digest:
        raise ConfigError(f"candidate {config.candidate} is the active revision already: nothing to compare")
    return _target(config, config.candidate_digest, live), _target(config, live.active, live)


def _target(config: StackConfig, digest: str, live: LiveService) -> Target:
    spec = next((spec for spec in config.revisions if spec.digest == digest), None)
    entry = live.table["revisions"].get(digest)
    if spec is None or entry is None:
        raise RouterProblem(f"revision {config.name_of(digest)} is not deployed as declared: run `infercrane up` first")
    url = entry["upstreams"][0]["url"]
    progress(f"{spec.name} at {url}")
    return Target(label=spec.name, revision_digest=digest, subject=spec.subject, base_url=url, model=config.service)
