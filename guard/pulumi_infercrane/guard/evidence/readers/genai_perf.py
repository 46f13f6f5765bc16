"""genai-perf `profile_export_genai_perf.json`: metric blocks without versions, errors or times."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, child, parse_object
from pulumi_infercrane.guard.evidence.reading.fields import number_or_null
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_workload
from pulumi_infercrane.guard.evidence.reading.metric_blocks import block_count, block_latency, block_value
from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.reasons import Inadmissible

VERSIONS: tuple[str, ...] = ()
READS = "The JSON export of `genai-perf profile`."
CANNOT_KNOW = "How many requests were sent and failed (planned.requests of the envelope says it), when, its version."

_KEYS = ("input_config", "request_count", "request_throughput", "request_latency")
_METRICS = {"ttft_s": "time_to_first_token", "tpot_s": "inter_token_latency", "e2e_s": "request_latency"}


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Benchmark:
    """The run of one file.

    Raises:
        Inadmissible: with the key.
    """
    check_kind(envelope, "benchmark")
    document = parse_object(parts["primary"], envelope, _KEYS)
    if "aiperf_version" in document or "schema_version" in document:
        raise Inadmissible("schema_unknown", "not a file of genai-perf: aiperf writes versions")
    config = child(document, "input_config", "")
    for model in _models(config):
        check_model(model, envelope)
    attempted, failed = _counts(document, envelope)
    rate, concurrency = _load(config)
    latencies = {figure: block_latency(document, name) for figure, name in _METRICS.items()}
    record = Benchmark(
        attempted=attempted,
        failed=failed,
        load_model="open" if rate else "closed" if concurrency else "",
        rate=rate,
        concurrency=concurrency,
        latencies={figure: latency for figure, latency in latencies.items() if latency},
        in_tokens=block_value(document, "input_sequence_length", "tokens"),
        out_tokens=block_value(document, "output_sequence_length", "tokens"),
        out_tokens_per_s=block_value(document, "output_token_throughput", "tokens/sec"),
    )
    rps = block_value(document, "request_throughput", "requests/sec")
    return check_workload(checked(record, rps=rps), envelope)


def _counts(document: Mapping[str, Any], envelope: Envelope) -> tuple[int | None, int | None]:
    """The tool counts answers only."""
    answered = block_count(document, "request_count")
    if answered is None or envelope.planned is None:
        return None, None
    planned = envelope.planned.requests
    if answered > planned:
        raise Inadmissible("counters_disagree", f"{answered} requests were answered, the envelope plans {planned}")
    return planned, planned - answered


def _models(config: Mapping[str, Any]) -> list[Any]:
    for name in ("model_names", "model"):
        models = config.get(name)
        if models is not None:
            return models if isinstance(models, list) else [models]
    return []


def _load(config: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Arrival rate or concurrency, which newer files keep as the analyzer's stimulus."""
    analyzer = config.get("perf_analyzer")
    stimulus = analyzer.get("stimulus") if isinstance(analyzer, dict) else None
    where = stimulus if isinstance(stimulus, dict) else config
    return number_or_null(where, "request_rate", "input_config"), number_or_null(where, "concurrency", "input_config")
