"""Routers for model servers, from the package index: one attempt for a request, no circuit breaker, errors logged."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from benchmarks.peers.peer import Peer, Place, installed, pinned
from pulumi_infercrane.components.supervision.ports import free_port

VLLM, SGLANG, SMG = "vllm-router==0.1.17", "sglang-router==0.3.2", "smg==1.13.0"


def _command(requirement: str, *program: str, more: tuple[str, ...] = ()) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        listen = ["--host", "127.0.0.1", "--port", str(place.port), "--prometheus-port", str(free_port())]
        behind = ["--worker-urls", place.upstream, "--policy", "round_robin", "--worker-startup-check-interval", "1"]
        care = ["--disable-retries", "--disable-circuit-breaker", "--log-level", "error"]
        return [str(installed(requirement) / program[0]), *program[1:], *listen, *behind, *care, *more]

    return command


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "vllm-router": Peer(_command(VLLM, "vllm-router"), pinned(VLLM)),
        "sglang-router": Peer(_command(SGLANG, "sglang-router", "launch"), pinned(SGLANG)),
        "smg": Peer(
            _command(SMG, "smg", "launch", more=("--disable-tokenizer-autoload", "--disable-load-monitoring")),
            pinned(SMG),
        ),
    }
)
"""sglang-router installs a script `smg` too: each has an environment of its own."""
