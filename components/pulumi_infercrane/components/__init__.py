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
    from pulumi_infercrane.components.route_settings import RouteArgs
    from pulumi_infercrane.components.router_process import RouterArgs, TlsFiles
    from pulumi_infercrane.components.routing import Routing
    from pulumi_infercrane.components.runtime import Runtime
    from pulumi_infercrane.components.service import InferenceService, InferenceServiceArgs
    from pulumi_infercrane.router.tables.table import Health, Mirror, ServiceLimits, Timers

_MODULES = {
    "AcceleratorSpec": "revision",
    "ComponentError": "errors",
    "GpuPool": "gpu_pool",
    "Health": "route_settings",
    "InferenceService": "service",
    "InferenceServiceArgs": "service",
    "Mirror": "route_settings",
    "ModelSpec": "revision",
    "PoolSpec": "revision",
    "Release": "release",
    "ReleaseArgs": "release",
    "RevisionSpec": "revision",
    "RouteArgs": "route_settings",
    "RouterArgs": "router_process",
    "Routing": "routing",
    "Runtime": "runtime",
    "RuntimeSpec": "revision",
    "ServiceLimits": "route_settings",
    "Timers": "route_settings",
    "TlsFiles": "router_process",
}

__all__ = [
    "AcceleratorSpec",
    "ComponentError",
    "GpuPool",
    "Health",
    "InferenceService",
    "InferenceServiceArgs",
    "Mirror",
    "ModelSpec",
    "PoolSpec",
    "Release",
    "ReleaseArgs",
    "RevisionSpec",
    "RouteArgs",
    "RouterArgs",
    "Routing",
    "Runtime",
    "RuntimeSpec",
    "ServiceLimits",
    "Timers",
    "TlsFiles",
]


if not TYPE_CHECKING:  # with it a type checker would believe any name

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
