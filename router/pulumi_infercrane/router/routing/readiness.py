"""Ready means: every service has an active revision, and one of its upstreams takes connections."""

import asyncio
from collections.abc import Callable

from pulumi_infercrane.router.routing.routes import Routes, ServiceRoute

PROBE_S = 1.0
SHARED_S = 1.0
"""So long an answer is good for everybody who asks: each one dials, and on the status port anybody may ask."""


class Readiness:
    """What is found by dialling, once for all who ask about the same routes at about the same time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._routes: Routes | None = None
        self._found: asyncio.Future[list[str]] | None = None
        self._asked_at = 0.0

    async def reasons(self, routes: Routes) -> list[str]:
        """Why these routes are not ready; none when they are."""
        found = self._found
        if found is None or routes is not self._routes or self._is_old(found):
            found = self._found = asyncio.ensure_future(why_not_ready(routes))
            self._routes, self._asked_at = routes, self._clock()
        return list(await asyncio.shield(found))

    def _is_old(self, found: asyncio.Future[list[str]]) -> bool:
        return found.done() and self._clock() - self._asked_at >= SHARED_S


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
