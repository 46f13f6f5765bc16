"""llama.cpp: settings in, one command out; everything that cannot be mapped is refused."""

import subprocess
from typing import Any

import pytest

from pulumi_infercrane.components.runtimes import Launch, SettingsError
from pulumi_infercrane.components.runtimes.llama_cpp import REFUSED, RUNTIME, SET_BY_US, UNMAPPABLE

LAUNCH = Launch("/opt/llama-server", "/models/m.gguf", "chat")
GOLDEN = (
    "/opt/llama-server --model /models/m.gguf --alias chat --host 127.0.0.1 --port {port}"
    " --ctx-size 16384 --parallel 4 --threads 2 --threads-batch 2 --batch-size 2048 --ubatch-size 512"
    " --cache-type-k f16 --cache-type-v f16 --cache-ram 0 --gpu-layers 0"
    " --fit off --no-kv-unified --no-webui --metrics --seed 7 --flash-attn on"
)


def test_golden_command() -> None:
    settings = RUNTIME.parse_settings({"max_context_len": 4096, "max_concurrency": 4, "threads": 2})
    assert " ".join(RUNTIME.command(LAUNCH, settings, ["--seed", "7", "--flash-attn", "on"])) == GOLDEN


def test_the_order_of_settings_does_not_matter() -> None:
    one = RUNTIME.parse_settings({"threads": 2, "max_concurrency": 4})
    other = RUNTIME.parse_settings({"max_concurrency": 4, "threads": 2})
    assert RUNTIME.command(LAUNCH, one, []) == RUNTIME.command(LAUNCH, other, [])


def test_defaults_are_written_out() -> None:
    settings = RUNTIME.parse_settings({}).model_dump()
    assert (settings["max_context_len"], settings["max_concurrency"], settings["threads"]) == (4096, 1, 1)


@pytest.mark.parametrize("flag", sorted({flag for flags in SET_BY_US.values() for flag in flags}))
def test_an_argument_the_mapping_already_sets_is_refused_in_every_spelling(flag: str) -> None:
    for argument in (flag, f"{flag}=1"):
        with pytest.raises(SettingsError, match=r"already given by"):
            RUNTIME.check_arguments(RUNTIME.parse_settings({}), ["--seed", "1", argument])


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_an_argument_that_would_leak_or_replace_the_weights_is_refused(flag: str) -> None:
    with pytest.raises(SettingsError, match="refused"):
        RUNTIME.command(LAUNCH, RUNTIME.parse_settings({}), [flag, "x"])


@pytest.mark.parametrize("name", sorted(UNMAPPABLE))
def test_a_setting_without_equal_is_refused_with_the_alternative(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"settings\.{name}: llama\.cpp has no such setting: ."):
        RUNTIME.parse_settings({name: 1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_context_length": 1}, r"settings\.max_context_length: unknown, did you mean max_context_len\?"),
        ({"xyzzy": 1}, r"settings\.xyzzy: unknown; there is: max_context_len"),
        ({"threads": 0}, r"settings\.threads: must be at least 1, not 0"),
        ({"threads": -1}, r"settings\.threads"),
        ({"threads": "2"}, r"settings\.threads: a whole number was expected, not '2'"),
        ({"max_context_len": "auto"}, r"settings\.max_context_len"),
        ({"kv_cache_type": "f8"}, r"settings\.kv_cache_type"),
        ({"max_context_len": 1_048_576, "max_concurrency": 256}, r"max_concurrency 16 would fit"),
        ({"batch_size": 8, "micro_batch_size": 16}, r"settings\.micro_batch_size: 16 is above batch_size 8"),
    ],
)
def test_a_bad_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        RUNTIME.parse_settings(settings)


@pytest.mark.runtime
def test_the_real_server_knows_every_flag_we_set(runtimes: dict[str, Any]) -> None:
    shown = subprocess.run([runtimes["server"]["path"], "--help"], capture_output=True, text=True, check=True).stdout
    known = set(shown.replace(",", " ").split())
    flags = [part for part in RUNTIME.command(LAUNCH, RUNTIME.parse_settings({}), []) if part.startswith("--")]
    assert set(flags) <= known
    assert {flag for flags in SET_BY_US.values() for flag in flags} <= known
