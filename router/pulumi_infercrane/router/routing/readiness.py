"""Ready means: every service has an active revision, and one of its upstreams takes connections."""

import asyncio

from pulumi_infercrane.router.routing.routes import Routes, ServiceRoute

PROBE_S = 1.0


async def why_not_ready(routes: Routes) -> list[str]:
    """Reasons; none when ready."""
    if not routes.by_service:
        return ["no service has a route table"]
    found = await asyncio.gather(*(_why_service_not_ready(route) for route in routes.by_service.values()))
    return [reason for reason in found if reason]


async def _why_service_not_ready(route: ServiceRoute) -> str:
    service = route.table.service
    if route.active is None:
        return f"service {service} has no active revision yet"
    for endpoint in (endpoint for endpoint in route.active.endpoints if not endpoint.draining):
        try:
            connection = await endpoint.pool.dial(PROBE_S)
        except OSError:
            continue
        connection.abort()
        return ""
    return f"no upstream of revision {route.active.label} of service {service} takes connections"
