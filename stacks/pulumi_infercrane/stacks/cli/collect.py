"""`infercrane collect`."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pulumi_infercrane.guard import sign_file
from pulumi_infercrane.guard.collect import CollectError, Target, find, kinds
from pulumi_infercrane.guard.times import parse_duration
from pulumi_infercrane.router.control.client import ControlClient, LiveService, RouterError
from pulumi_infercrane.stacks.cli._common import Chosen, choose, print_json, progress, progress_of, stack_options
from pulumi_infercrane.stacks.cli._grouped import GroupedCommand, GroupedOption
from pulumi_infercrane.stacks.cli._keys import open_key, sign_with_option
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.errors import ConfigError, RouterProblem
from pulumi_infercrane.stacks.handles import handles_of


def _option(group: str, *arguments: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*arguments, cls=GroupedOption, group=group, **settings)


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """`30m` as seconds."""
    try:
        return None if text is None else parse_duration(text).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_FILE = click.Path(dir_okay=False, path_type=Path)
_COUNT = click.IntRange(1)
_AMOUNT = click.FloatRange(0, min_open=True)
_LOAD, _GIVEN, _REPLAY, _BOUNDS = "Load", "What a kind needs", "Replay and cost", "Bounds"
_DRILLS = "Drills on the candidate, after its soak (reliability)"


@click.command("collect", cls=GroupedCommand)
@stack_options
@click.option(
    "--kind", "chosen_kinds", multiple=True, help="Kind of evidence, repeatable; default: all that enough is given for."
)
@_option(_GIVEN, "--tasks", type=_FILE, help="Task file (quality).")
@_option(_GIVEN, "--recording", type=click.Path(path_type=Path), help="Recorded requests, file or folder (replay).")
@_option(_GIVEN, "--prices", type=_FILE, help="Price file (cost).")
@_option(_GIVEN, "--duration", "duration_s", callback=_seconds, help="How long to soak, like 30m (reliability).")
@_option(_LOAD, "--requests", type=_COUNT, help="Requests per side (benchmark, replay, cost); default: 1000.")
@_option(_LOAD, "--items", "limit", type=_COUNT, help="Items of the task file to ask (quality); default: all.")
@_option(
    _LOAD, "--max-tokens", type=_COUNT, help="Longest answer, in tokens (not quality); default: 48, in a replay 512."
)
@_option(_LOAD, "--concurrency", type=_COUNT, help="Requests under way at once; default: 4.")
@_option(_REPLAY, "--similarity", help="Measure of how alike two answers are (replay); default: token_ratio.")
@_option(_REPLAY, "--greedy", is_flag=True, default=None, help="Ask at temperature 0, whatever was recorded (replay).")
@_option(_REPLAY, "--slo-ttft", "slo_ttft_s", type=_AMOUNT, help="Seconds to the first token of a good request (cost).")
@_option(_REPLAY, "--slo-tpot", "slo_tpot_s", type=_AMOUNT, help="Seconds per further token of a good request (cost).")
@_option(
    _DRILLS, "--cold-starts", type=_COUNT, help="Restart it so often; refused while it has traffic; default: never."
)
@_option(
    _DRILLS,
    "--drain-streams",
    type=_COUNT,
    help="Roll back and drain, in a router of its own, under so many; default: not at all.",
)
@_option(_DRILLS, "--drain-tokens", type=_COUNT, help="Length of those streams, in tokens; default: 512.")
@_option(_REPLAY, "--rate", type=_AMOUNT, help="Requests a second, as users send them: idle time is paid for (cost).")
@_option(
    _BOUNDS,
    "--max-seconds",
    type=click.FloatRange(1),
    help="Seconds each kind may take, both sides together; default: 3600.",
)
@_option(
    _BOUNDS,
    "--max-cost",
    type=_AMOUNT,
    help="Money each kind may cost, in the currency of the price file; default: no bound.",
)
@sign_with_option("envelopes")
def command(
    stack: str | None,
    directory: Path,
    as_json: bool,
    chosen_kinds: tuple[str, ...],
    key_file: Path | None,
    passphrase_from: str | None,
    **options: Any,
) -> None:
    """Measure the candidate and the active revision under the same load, and write evidence about both.

    Goes straight to the replicas: user traffic is not touched. Both sides are measured in turn, so that whatever else
    the machine does hits both alike. After an interruption the same command goes on behind the last finished block.

    \b
    Example:
      infercrane collect -s prod --tasks tasks.yaml --prices prices.yaml --duration 30m
    """
    chosen = choose(directory, stack)
    given = {name: value for name, value in options.items() if value is not None}
    given["handles"] = handles_of(chosen.project, chosen.config)
    plans = [(kind, _plan(kind, given)) for kind in chosen_kinds or _measurable(given)]
    key = open_key(key_file, passphrase_from) if key_file else None  # before an hour of measuring, not after it
    candidate, baseline = asyncio.run(_targets(chosen, alone=all(find(kind).alone for kind, _ in plans)))
    written: list[Path] = []
    for path in _collect(plans, candidate, baseline, chosen.config.evidence):
        if key:
            sign_file(path, key)
        written.append(path)
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            click.echo(str(path))


def _plan(kind: str, given: Mapping[str, Any]) -> Any:
    """What is measured for a kind; what it lacks is named as the option it is given by."""
    options = {parameter.name: parameter.opts[0] for parameter in command.params}
    lacking = [options[name] for name in find(kind).needs if name not in given]
    if lacking:
        raise CollectError(f"--kind {kind} needs {' and '.join(lacking)}")
    return find(kind).plan(given)


def _measurable(given: Mapping[str, Any]) -> Sequence[str]:
    """Every kind that what was given is enough for: quality, for example, needs a task file."""
    return [kind for kind in kinds() if set(find(kind).needs) <= set(given)]


def _collect(plans: Sequence[tuple[str, Any]], candidate: Target, baseline: Target, out: Path) -> Iterator[Path]:
    """The envelopes, as soon as those of one kind are written."""
    for position, (kind, plan) in enumerate(plans):
        try:
            with progress_of(kind) as show:
                yield from asyncio.run(find(kind).collect(candidate, baseline, out=out, plan=plan, progress=show))
        except KeyboardInterrupt:
            left = " ".join(f"--kind {name}" for name, _ in plans[position:])
            progress(f"interrupted: the same command with {left} goes on behind the last finished block")
            raise


async def _targets(chosen: Chosen, *, alone: bool) -> tuple[Target, Target]:
    """The candidate and what serves, where they answer now: asked from the router.

    While nothing serves, the first revision stands for both; only what measures the candidate `alone` may have it.
    """
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
    if not live.active and not alone:
        raise ConfigError(
            "nothing serves yet, so there is nothing to compare with: only --kind reliability needs nothing"
        )
    if not live.active:
        first = _target(config, config.candidate_digest, live)
        return first, first
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
