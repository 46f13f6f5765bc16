"""InferenceX results: vLLM's figures in seconds, in keys that look alike but do not end in `_ms`."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, parse_object
from pulumi_infercrane.guard.evidence.reading.fields import count, number, optional_number
from pulumi_infercrane.guard.evidence.reading.flat_latencies import flat_latencies
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_workload
from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.reasons import Inadmissible

VERSIONS: tuple[str, ...] = ()
READS = "One aggregated result of InferenceX (InferenceMAX): latencies in seconds, throughput for each accelerator."
CANNOT_KNOW = "How many requests were sent, answered or failed, when, and by which version of the tool."

_KEYS = ("hw", "conc", "model", "framework", "precision", "tput_per_gpu", "output_tput_per_gpu", "median_ttft")
_NAMES = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}
_INVERSE_SHARE = 0.01


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Benchmark:
    """The operating point of one file.

    Raises:
        Inadmissible: with the key.
    """
    check_kind(envelope, "benchmark")
    document = parse_object(parts["primary"], envelope, _KEYS)
    if any(key.endswith("_ms") for key in document):
        raise Inadmissible("schema_unknown", "not a file of inferencex: its keys have no unit, these end in _ms")
    check_model(document["model"], envelope)
    _check_unit(document)
    record = Benchmark(
        attempted=None,
        failed=None,
        load_model="closed",
        concurrency=float(count(document, "conc", "")),
        latencies=flat_latencies(document, _NAMES, "", 1.0),
        in_tokens=optional_number(document, "isl", ""),
        out_tokens=optional_number(document, "osl", ""),
        out_tokens_per_s=number(document, "output_tput_per_gpu", "") * envelope.subject.accelerator.count,
    )
    return check_workload(checked(record), envelope)


def _check_unit(document: Mapping[str, Any]) -> None:
    """Interactivity is written beside the time per token it is the inverse of, in tokens per second."""
    for statistic in ("mean", "median"):
        tpot = optional_number(document, f"{statistic}_tpot", "")
        pace = optional_number(document, f"{statistic}_intvty", "")
        if tpot is not None and pace is not None and abs(tpot * pace - 1) > _INVERSE_SHARE:
            detail = f"{statistic}_tpot {tpot:g} is not the inverse of {statistic}_intvty {pace:g}: seconds?"
            raise Inadmissible("unit_suspect", detail)
