"""The paths the data plane answers. Everything else, engine control endpoints included, does not exist here."""

from collections.abc import Mapping
from types import MappingProxyType

PROTOCOLS: Mapping[str, str] = MappingProxyType(
    {
        "chat": "/v1/chat/completions",
        "completions": "/v1/completions",
        "embeddings": "/v1/embeddings",
        "responses": "/v1/responses",
    }
)
"""Protocol name in the route table → path."""

PROTOCOL_OF: Mapping[str, str] = MappingProxyType({path: name for name, path in PROTOCOLS.items()})

MODELS = "/v1/models"
