"""llama.cpp's `llama-server`: settings, flags, and how it starts, fails and stops."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pulumi_infercrane.components.runtimes import Launch, Readiness, SettingsError, StartFailure, StopFacts
from pulumi_infercrane.guard.findings import YAML, findings

MAX_CELLS = 16 * 1024 * 1024
"""Largest `max_context_len × max_concurrency` accepted: beyond it the KV cache alone needs terabytes."""

UNMAPPABLE = {
    "tensor_parallel": "llama.cpp splits by layers or rows instead: give `--split-mode` and `--tensor-split` in args",
    "cache_ratio": "KV memory follows from max_context_len × max_concurrency: lower one of them",
    "quantization": "it is a property of the GGUF file: name it under model",
    "stream": "streaming is chosen per request; there is no server setting",
    "model_path": "the file is named under model.path",
}

KvCacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


class Settings(BaseModel):
    """Portable settings of `llama-server`. All of them reach the command line, defaults included."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    max_context_len: Annotated[int, Field(ge=1, le=1_048_576)] = 4096
    """Tokens of prompt and answer together, per request."""
    max_concurrency: Annotated[int, Field(ge=1, le=1024)] = 1
    """Requests served at the same time; further ones queue."""
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """CPU threads, for prompts and generation alike."""
    batch_size: Annotated[int, Field(ge=1, le=65536)] = 2048
    micro_batch_size: Annotated[int, Field(ge=1, le=65536)] = 512
    kv_cache_type: KvCacheType = "f16"
    prompt_cache_mib: Annotated[int, Field(ge=0, le=1_048_576)] = 0
    """Host memory for prompts of earlier requests; 0 = off."""
    gpu_layers: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Layers held in device memory; 0 = everything on the CPU."""


SET_BY_US = {
    "model": ("-m", "--model"),
    "served name": ("-a", "--alias"),
    "host": ("--host",),
    "port": ("--port",),
    "max_context_len": ("-c", "--ctx-size"),
    "max_concurrency": ("-np", "--parallel"),
    "threads": ("-t", "--threads", "-tb", "--threads-batch"),
    "batch_size": ("-b", "--batch-size"),
    "micro_batch_size": ("-ub", "--ubatch-size"),
    "kv_cache_type": ("-ctk", "--cache-type-k", "-ctv", "--cache-type-v"),
    "prompt_cache_mib": ("-cram", "--cache-ram"),
    "gpu_layers": ("-ngl", "--gpu-layers", "--n-gpu-layers"),
    "fitting to device memory (always off)": ("-fit", "--fit"),
    "splitting the KV cache per request (always on)": ("-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"),
    "web pages (always off)": ("--ui", "--webui", "--no-ui", "--no-webui"),
    "metrics (always on)": ("--metrics",),
}
"""Every flag the mapping sets, with all its spellings."""

REFUSED = {
    "--api-key": "a key on the command line is visible to every user: use --api-key-file",
    "--model-url": "a revision names its weights by path and sha256",
    "-mu": "a revision names its weights by path and sha256",
    "--hf-repo": "a revision names its weights by path and sha256",
    "-hf": "a revision names its weights by path and sha256",
    "-hfr": "a revision names its weights by path and sha256",
}

_OWNERS = {flag: owner for owner, flags in SET_BY_US.items() for flag in flags}


class LlamaCpp:
    """Mapping for `llama-server` builds from 2025 on (those that know `--fit`)."""

    name = "llama.cpp"
    readiness = Readiness(health_path="/health")
    stop = StopFacts(drains=False, grace_s=5.0)
    how_to_install = (
        "install llama.cpp (https://github.com/ggml-org/llama.cpp/releases) and name its llama-server, or a path to "
        "it, under runtime.executable"
    )
    failures = (
        StartFailure("failed to open GGUF file", "model_path_missing", "check model.path of the revision"),
        StartFailure(
            "data is not within the file bounds, model is corrupted or incomplete",
            "model_corrupt",
            "fetch the model file again and compare its sha256",
        ),
        StartFailure("invalid magic characters", "model_corrupt", "the file is not a GGUF model"),
        StartFailure("error: invalid argument", "unknown_engine_flag", "this build does not know an argument"),
        StartFailure("couldn't bind HTTP server socket", "port_taken", "another process took the port meanwhile"),
        StartFailure("failed to allocate", "out_of_memory", "lower max_context_len or max_concurrency"),
        StartFailure("exiting due to model loading error", "engine_start_failed", "see the log"),
    )

    def parse_settings(self, settings: Mapping[str, Any]) -> Settings:
        for name in settings:
            if name not in Settings.model_fields:
                raise SettingsError(_unknown(name))
        try:
            parsed = Settings.model_validate(dict(settings))
        except ValidationError as error:
            first = findings(error, Settings, YAML)[0]
            raise SettingsError(f"settings.{first.field}: {first.text}, not {settings[first.path[0]]!r}") from error
        _check_memory(parsed)
        return parsed

    def check_arguments(self, settings: BaseModel, arguments: Sequence[str]) -> None:
        for argument in arguments:
            flag = argument.partition("=")[0]
            if flag in _OWNERS:
                raise SettingsError(f"args: {flag} is already given by {_OWNERS[flag]}: remove it from args")
            if flag in REFUSED:
                raise SettingsError(f"args: {flag} is refused: {REFUSED[flag]}")

    def command(self, launch: Launch, settings: BaseModel, arguments: Sequence[str]) -> tuple[str, ...]:
        chosen = Settings.model_validate(settings)
        self.check_arguments(chosen, arguments)
        flags = {
            "--model": launch.model_path,
            "--alias": launch.served_name,
            "--host": launch.host,
            "--port": launch.port,
            "--ctx-size": chosen.max_context_len * chosen.max_concurrency,
            "--parallel": chosen.max_concurrency,
            "--threads": chosen.threads,
            "--threads-batch": chosen.threads,
            "--batch-size": chosen.batch_size,
            "--ubatch-size": chosen.micro_batch_size,
            "--cache-type-k": chosen.kv_cache_type,
            "--cache-type-v": chosen.kv_cache_type,
            "--cache-ram": chosen.prompt_cache_mib,
            "--gpu-layers": chosen.gpu_layers,
            "--fit": "off",
        }
        pairs = [part for flag, value in flags.items() for part in (flag, str(value))]
        return (launch.executable, *pairs, "--no-kv-unified", "--no-webui", "--metrics", *arguments)


def _unknown(name: str) -> str:
    if name in UNMAPPABLE:
        return f"settings.{name}: llama.cpp has no such setting: {UNMAPPABLE[name]}"
    near = get_close_matches(name, [*Settings.model_fields, *UNMAPPABLE], n=1)
    hint = f", did you mean {near[0]}?" if near else f"; there is: {', '.join(Settings.model_fields)}"
    return f"settings.{name}: unknown{hint}"


def _check_memory(settings: Settings) -> None:
    """The context is allocated for all requests at once, so the product decides, not the length."""
    cells = settings.max_context_len * settings.max_concurrency
    if cells > MAX_CELLS:
        fits = MAX_CELLS // settings.max_context_len
        raise SettingsError(
            f"settings: {settings.max_context_len} tokens × {settings.max_concurrency} requests are {cells} cells "
            f"of KV cache; at most {MAX_CELLS} are accepted: max_concurrency {fits} would fit"
        )
    if settings.micro_batch_size > settings.batch_size:
        raise SettingsError(
            f"settings.micro_batch_size: {settings.micro_batch_size} is above batch_size {settings.batch_size}"
        )


RUNTIME = LlamaCpp()
