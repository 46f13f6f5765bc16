"""The paths the data plane answers. Everything else, engine control endpoints included, does not exist here."""

from collections.abc import Mapping
from types import MappingProxyType

PROTOCOLS: Mapping[str, bytes] = MappingProxyType(
    {
        "chat": b"/v1/chat/completions",
        "completions": b"/v1/completions",
        "embeddings": b"/v1/embeddings",
        "responses": b"/v1/responses",
        "tokenize": b"/tokenize",
        "detokenize": b"/detokenize",
        "score": b"/v1/score",
        "rerank": b"/v1/rerank",
    }
)
"""Protocol name in the route table → path."""

PROTOCOL_OF: Mapping[bytes, str] = MappingProxyType({path: name for name, path in PROTOCOLS.items()})

MODELS = b"/v1/models"
"""The aliases; below it, each of them by its name."""


def is_models(path: bytes) -> bool:
    """Whether the router answers this itself."""
    return path == MODELS or path.startswith(MODELS + b"/")
