"""InferenceX results look like vLLM's and are in seconds."""

import pytest

TOOL = ("inferencex", "1.0")
NAME = "vllm_tp8_conc64.json"


def test_x1_the_unit_follows_from_the_keys_not_from_the_size(read):
    record = read(*TOOL, primary=NAME).record
    assert record.latencies["ttft_s"].quantiles == {0.5: 0.9015, 0.99: 1.6214}
    assert record.latencies["tpot_s"].quantiles[0.5] == 0.0309
    assert (record.load_model, record.concurrency, record.in_tokens, record.out_tokens) == ("closed", 64, 1024, 128)


def test_x1_a_key_in_milliseconds_is_of_another_tool(read, document):
    assert read(*TOOL, primary=document("inferencex", NAME, p95_ttft_ms=1200.0)).problem.code == "schema_unknown"


def test_x1_a_file_of_vllm_is_not_one_of_inferencex_and_the_other_way_round(read, samples):
    vllm, inferencex = (samples / name for name in ("vllm-bench/ok.json", f"inferencex/{NAME}"))
    assert read(*TOOL, primary=vllm.read_bytes()).problem.code == "schema_unknown"
    assert read("vllm-bench", "0.33.0", primary=inferencex.read_bytes()).problem.code == "schema_unknown"


def test_what_was_attempted_is_unknown_even_with_a_plan(read):
    """SemiAnalysisAI/InferenceX#1393: success = total by filtering the errors."""
    record = read(*TOOL, {"planned": 640}, primary=NAME).record
    assert (record.attempted, record.failed) == (None, None)


def test_throughput_is_of_all_accelerators(read, folder):
    folder.subjects["candidate"]["accelerator"]["count"] = 8
    folder.reseal()
    assert read(*TOOL, primary=NAME).record.out_tokens_per_s == pytest.approx(8 * 204.8)


def test_milliseconds_under_a_key_of_seconds_are_found_by_the_inverse_beside_them(read, document):
    item = read(*TOOL, primary=document("inferencex", NAME, median_tpot=30.9))
    assert item.problem.code == "unit_suspect"


def test_the_model_is_the_one_of_the_subject(read, folder):
    folder.subjects["candidate"]["model"]["source"] = "hf:zai-org/GLM-4"
    folder.reseal()
    assert read(*TOOL, primary=NAME).problem.code == "binding_conflict"
