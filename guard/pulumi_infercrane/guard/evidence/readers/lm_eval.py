"""lm-eval (EleutherAI's harness): `results_*.json`, and `samples_<task>_*.jsonl` as part `samples` for pairing.

Two layouts: 0.4 writes metrics as `"metric,filter"`; that of 2022 (0.2, 0.3, and the BigScience fork) writes them bare,
sometimes with a level of dates between the task and its metrics. One envelope is about one task, metric and filter.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, optional_count
from pulumi_infercrane.guard.evidence.reading.moments import check_times
from pulumi_infercrane.guard.evidence.reading.scored import (
    check_version,
    chosen,
    identity,
    require_kind,
    rule_name,
    selection,
    share,
    text_digest,
)
from pulumi_infercrane.guard.evidence.reading.stated import Stated, from_epoch
from pulumi_infercrane.guard.evidence.records import Answer, Quality, Score
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse, parse_lines

VERSIONS = ("0.2", "0.3", "0.4")
READS = "One task, metric and filter of a results file; with the samples file beside it, a score per document."
CANNOT_KNOW = (
    "Which revision answered, which answers were cut short; in the 2022 layout also how many documents, and when."
)

INVALID = "[invalid]"
"""What lm-eval's filters return when they find no answer in a text."""
TIED_SHARE = 0.05
"""More multiple-choice items than this with equal log-probabilities for all choices: the scores are guesses."""

_CLOSE = 1e-6
_HASHES = ("doc_hash", "prompt_hash", "target_hash")
"""In the order in which the harness strings them together for `task_hashes`."""

_Item = Mapping[str, Any]


@dataclass(frozen=True)
class _Run:
    """What one envelope is about: names as the file writes them."""

    task: str
    metric: str
    filter: str
    lower_is_better: bool
    figures: Mapping[str, Any]

    def score(self, value: float) -> float:
        return 1.0 - value if self.lower_is_better else value


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Quality:
    """The task that the envelope selects with `task`, `metric`, `filter` and, in the 2022 layout, `date`.

    Raises:
        Inadmissible: with the reason code and the field or line.
    """
    require_kind(envelope, "lm-eval", "quality")
    results = _results(parts["primary"])
    check_version(results.get("lm_eval_version"), envelope, "lm_eval_version")
    check_times(envelope, *_times(results))
    run = _run(results, envelope)
    planned = _planned(results, run.task)
    items: Sequence[_Item] = []
    if "samples" in parts:
        lines = list(parse_lines(parts["samples"]))
        items = _items(lines, run)
        _check_items(results, run, items, lines)
    return Quality(
        task=rule_name(run.task),
        metric=rule_name(run.metric),
        tasks_digest=_tasks_digest(results, run, items),
        answers={field(item, "doc_hash", str, ""): _answer(item, run) for item in items},
        summary=_summary(results, run),
        constant=_constant(items),
        planned=planned,
        prompts_digest=identity(sorted([item["doc_hash"], item["prompt_hash"]] for item in items)) if items else "",
    )


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version, and start and duration of the run."""
    results = _results(parts["primary"])
    started, ended = _times(results)
    effective = [_samples(results, task).get("effective") for task in results["results"]]
    return Stated(
        tool_version=str(results.get("lm_eval_version") or ""),
        started_at=started,
        ended_at=ended,
        planned=effective[0] if len(effective) == 1 and isinstance(effective[0], int) else None,
    )


def _times(results: Mapping[str, Any]) -> tuple[str, str]:
    started = from_epoch(results.get("date"))
    seconds = _seconds(results.get("total_evaluation_time_seconds"))
    return started, from_epoch(results["date"] + seconds) if started and seconds is not None else ""


def _seconds(text: Any) -> float | None:
    """The duration is a number written as a string."""
    try:
        seconds = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _results(data: bytes) -> Mapping[str, Any]:
    results = parse(data)
    if not isinstance(results, dict) or not all(isinstance(results.get(key), dict) for key in ("results", "versions")):
        raise Inadmissible("schema_unknown", "not a results file of lm-eval: it has no results with versions")
    return results


# --- which run --------------------------------------------------------------------------------------------------


def _run(results: Mapping[str, Any], envelope: Envelope) -> _Run:
    select = selection(envelope, "task", "metric", "filter", "date")
    task = chosen("task", results["results"].keys(), select)
    figures = field(results["results"], task, dict, "results")
    if _has_dates(figures):
        figures = figures[chosen("date", figures.keys(), select)]
    named = [_split(key) for key, value in figures.items() if _is_metric(key, value)]
    metric = chosen("metric", {metric for metric, _ in named}, select)
    picked = chosen("filter", {by for name, by in named if name == metric}, select)
    directions = _mapping(results, "higher_is_better").get(task)
    lower = isinstance(directions, dict) and directions.get(metric) is False
    return _Run(task, metric, picked, lower, figures)


def _has_dates(figures: Mapping[str, Any]) -> bool:
    return bool(figures) and all(isinstance(value, dict) for value in figures.values())


def _split(key: str) -> tuple[str, str]:
    """`exact_match,strict` as metric and filter; a bare name of the 2022 layout has the filter `none`."""
    metric, comma, by = key.partition(",")
    return metric, by if comma else "none"


def _is_metric(key: str, value: Any) -> bool:
    return not _split(key)[0].endswith("_stderr") and key != "sample_len" and isinstance(value, int | float)


def _figure(run: _Run, suffix: str = "") -> Any:
    name = run.metric + suffix
    return run.figures.get(f"{name},{run.filter}", run.figures.get(name))


def _summary(results: Mapping[str, Any], run: _Run) -> Score:
    """A standard error of one sample is written as "N/A"."""
    stderr = _figure(run, "_stderr")
    if not isinstance(stderr, int | float) or isinstance(stderr, bool) or not 0 <= stderr <= 1:
        stderr = None
    return Score(
        run.score(share(_figure(run), f"results.{run.task}.{run.metric}")), stderr, _effective(results, run.task)
    )


def _planned(results: Mapping[str, Any], task: str) -> int | None:
    """Documents the task has. A file that does not say must at least not have been limited."""
    samples = _samples(results, task)
    if samples:
        return count(samples, "original", f"n-samples.{task}")
    limit = _mapping(results, "config").get("limit")
    if limit is not None:
        raise Inadmissible("truncated", f"config.limit is {limit}: the run left documents out")
    return None


def _effective(results: Mapping[str, Any], task: str) -> int | None:
    """Documents the figures are over; None where the file does not say."""
    return optional_count(_samples(results, task), "effective", f"n-samples.{task}")


def _samples(results: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    found = _mapping(results, "n-samples").get(task)
    return found if isinstance(found, dict) else {}


def _mapping(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = results.get(name)
    return found if isinstance(found, dict) else {}


# --- items ------------------------------------------------------------------------------------------------------


def _items(lines: Sequence[_Item], run: _Run) -> Sequence[_Item]:
    """The samples of the chosen filter: the file has one line per document and filter."""
    for number, line in enumerate(lines, start=1):
        for name in _HASHES:
            field(line, name, str, f"line {number}")
    items = [line for line in lines if line.get("filter", "none") == run.filter]
    if not items:
        raise Inadmissible("no_scores", f"the samples file has no line with filter {run.filter!r}")
    if len({item["doc_hash"] for item in items}) < len(items):
        raise Inadmissible("counters_disagree", "a document occurs twice in the samples file")
    return items


def _check_items(results: Mapping[str, Any], run: _Run, items: Sequence[_Item], lines: Sequence[_Item]) -> None:
    """The samples must be those the results were computed from."""
    effective = _effective(results, run.task)
    if effective is not None and effective != len(items):
        raise Inadmissible("counters_disagree", f"{len(items)} samples, the results are over {effective}")
    written = _mapping(results, "task_hashes").get(run.task)
    if written is not None and written != text_digest("".join(line[name] for line in lines for name in _HASHES)):
        raise Inadmissible("counters_disagree", f"the samples are not those behind task_hashes.{run.task}")
    mean = math.fsum(_score(item, run) for item in items) / len(items)
    if _is_mean(results, run) and abs(mean - _summary(results, run).value) > _CLOSE:
        raise Inadmissible("counters_disagree", f"the samples' mean {mean:.6g} is not the {run.metric} of the results")


def _is_mean(results: Mapping[str, Any], run: _Run) -> bool:
    listed = _mapping(_mapping(results, "configs"), run.task).get("metric_list")
    entries = listed if isinstance(listed, list) else []
    return any(
        isinstance(entry, dict) and entry.get("metric") == run.metric and entry.get("aggregation") == "mean"
        for entry in entries
    )


def _answer(item: _Item, run: _Run) -> Answer:
    return Answer(
        score=_score(item, run),
        ok=True,
        empty=_is_empty(item.get("filtered_resps")),
        cut=None,
        text_sha256=text_digest(item.get("resps")),
    )


def _score(item: _Item, run: _Run) -> float:
    where = f"doc_id {item.get('doc_id')}"
    if run.metric not in item:
        raise bad(where, f"there is no {run.metric}")
    return run.score(share(item[run.metric], where))


def _is_empty(filtered: Any) -> bool:
    """No text at all, or none in which the filter found an answer."""
    texts = [text for text in filtered if isinstance(text, str)] if isinstance(filtered, list) else []
    return bool(texts) and all(not text.strip() or text == INVALID for text in texts)


def _constant(items: Sequence[_Item]) -> str:
    tied = sum(_is_tied(item.get("resps")) for item in items)
    if tied <= TIED_SHARE * len(items):
        return ""
    return f"all choices have the same log-probability in {tied} of {len(items)} items"


def _is_tied(choices: Any) -> bool:
    """`[[[log-probability, is greedy]], …]`, one entry per choice."""
    if not isinstance(choices, list) or len(choices) < 2:
        return False
    first = [choice[0][0] if _is_likelihood(choice) else None for choice in choices]
    return first[0] is not None and all(value == first[0] for value in first)


def _is_likelihood(choice: Any) -> bool:
    return isinstance(choice, list) and bool(choice) and isinstance(choice[0], list) and len(choice[0]) == 2


def _tasks_digest(results: Mapping[str, Any], run: _Run, items: Sequence[_Item]) -> str:
    """Documents and targets where the samples are there, else the harness's own hash, which is over the prompts too."""
    documents = sorted([item["doc_hash"], item["target_hash"]] for item in items)
    return identity(
        {
            "task": run.task,
            "filter": run.filter,
            "version": str(_mapping(results, "versions").get(run.task)),
            "n-shot": str(_mapping(results, "n-shot").get(run.task)),
            "documents": documents or str(_mapping(results, "task_hashes").get(run.task)),
        }
    )
