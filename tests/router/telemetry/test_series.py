"""What clients send makes no series: probe L6."""

import itertools

from pulumi_infercrane.router.telemetry.metrics import render
from tests.router.client import chat, request
from tests.router.conftest import Running


def series(router: Running) -> set[str]:
    """Every name with its labels."""
    text = render(router.parts.relay.routes, router.parts.relay.traffic)
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


async def test_L6_invented_models_paths_and_ids_make_no_series(router: Running) -> None:
    names = itertools.count()

    async def invent() -> None:
        number = next(names)
        for asked in (
            chat(False, f"X-Request-Id: id-{number}"),
            chat(False, model=f"model-{number}"),
            chat(False, f"X-InferCrane-Revision: r-{number}"),
            request(b"{}", path=f"/v1/path-{number}"),
        ):
            async with await router.client() as client:
                await client.ask(asked)

    await invent()
    before = series(router)
    for _ in range(100):
        await invent()
    assert series(router) == before
