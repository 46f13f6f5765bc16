"""The paths the data plane answers. Everything else, engine control endpoints included, does not exist here."""

from collections.abc import Mapping
from types import MappingProxyType

PROTOCOLS: Mapping[str, bytes] = MappingProxyType(
    {
        "chat": b"/v1/chat/completions",
        "completions": b"/v1/completions",
        "embeddings": b"/v1/embeddings",
        "responses": b"/v1/responses",
    }
)
"""Protocol name in the route table → path."""

PROTOCOL_OF: Mapping[bytes, str] = MappingProxyType({path: name for name, path in PROTOCOLS.items()})

MODELS = b"/v1/models"
