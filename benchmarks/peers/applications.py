"""Proxies in Python, from the package index: LiteLLM, and what people write themselves. One worker, no access log."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.peers.peer import Peer, Place, installed, pinned

LITELLM = "litellm[proxy]==1.108.7"
LITELLM_KEY = "sk-probes-0123456789abcdef0123456789abcdef"
STARLETTE = "starlette==1.10.0 httpx==0.28.1 uvicorn==0.54.0 uvloop httptools"


def _litellm(place: Place) -> list[str]:
    waits = {"timeout": place.silence_s, "stream_timeout": place.silence_s}
    parameters = {"model": "openai/chat", "api_base": f"{place.upstream}/v1", "api_key": "sk-upstream", **waits}
    settings = {
        "model_list": [{"model_name": "chat", "litellm_params": parameters}],
        "general_settings": {"master_key": LITELLM_KEY},
        "litellm_settings": {"telemetry": False, "num_retries": 0, "max_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    config = _written(place.folder / "litellm.yaml", settings)
    quiet = {"version": 1, "disable_existing_loggers": False, "loggers": {"uvicorn.access": {"propagate": False}}}
    logs = ["--log_config", _written(place.folder / "log.json", quiet)]
    return [str(installed(LITELLM) / "litellm"), "--config", config, *logs, *_listen(place)]


def _written(path: Path, settings: Mapping[str, Any]) -> str:
    path.write_text(json.dumps(settings))
    return str(path)


def _starlette(place: Place) -> list[str]:
    app = ["starlette_proxy:app", "--app-dir", str(Path(__file__).parent)]
    return [str(installed(STARLETTE) / "uvicorn"), *app, *_listen(place), "--no-access-log"]


def _listen(place: Place) -> list[str]:
    return ["--host", "127.0.0.1", "--port", str(place.port)]


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "litellm": Peer(_litellm, pinned(LITELLM), (f"Authorization: Bearer {LITELLM_KEY}",), slow=True),
        "starlette + httpx": Peer(_starlette, pinned(STARLETTE), slow=True),
    }
)
