"""What is deployed: revisions, pools, runtimes, the route and its release, as Pulumi components.

Import what a program needs from here. Names are resolved on first use, so that reading a `RevisionSpec` in a command
line tool does not load the Pulumi SDK.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulumi_infercrane.components.errors import ComponentError
    from pulumi_infercrane.components.gpu_pool import GpuPool
    from pulumi_infercrane.components.release import Release, ReleaseArgs
    from pulumi_infercrane.components.revision import (
        AcceleratorSpec,
        ModelSpec,
        PoolSpec,
        RevisionSpec,
        RuntimeSpec,
    )
    from pulumi_infercrane.components.routing import RouterArgs, Routing
    from pulumi_infercrane.components.runtime import Runtime
    from pulumi_infercrane.components.service import InferenceService, InferenceServiceArgs

_MODULES = {
    "AcceleratorSpec": "revision",
    "ComponentError": "errors",
    "GpuPool": "gpu_pool",
    "InferenceService": "service",
    "InferenceServiceArgs": "service",
    "ModelSpec": "revision",
    "PoolSpec": "revision",
    "Release": "release",
    "ReleaseArgs": "release",
    "RevisionSpec": "revision",
    "RouterArgs": "routing",
    "Routing": "routing",
    "Runtime": "runtime",
    "RuntimeSpec": "revision",
}

__all__ = [
    "AcceleratorSpec",
    "ComponentError",
    "GpuPool",
    "InferenceService",
    "InferenceServiceArgs",
    "ModelSpec",
    "PoolSpec",
    "Release",
    "ReleaseArgs",
    "RevisionSpec",
    "RouterArgs",
    "Routing",
    "Runtime",
    "RuntimeSpec",
]


if not TYPE_CHECKING:  # with it a type checker would believe any name

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
