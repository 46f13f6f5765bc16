"""The provider process: `pulumi-resource-infercrane [engine address]`.

Components are not hosted here; calls that no resource type needs answer UNIMPLEMENTED.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from importlib.metadata import version

import grpc.aio
from pulumi.runtime.proto.provider_pb2_grpc import add_ResourceProviderServicer_to_server

from pulumi_infercrane.components.plugin.engine import EngineLink
from pulumi_infercrane.components.plugin.registry import find_resources
from pulumi_infercrane.components.plugin.resource import Resource
from pulumi_infercrane.components.plugin.servicer import Servicer
from pulumi_infercrane.components.plugin.watch import engine_gone

MAX_MESSAGE_BYTES = 400 * 1024 * 1024
STOP_GRACE_S = 4.0
"""The engine kills a plugin five seconds after SIGINT."""
ORPHAN_GRACE_S = 60.0
"""How long calls may go on when the engine is gone: enough to leave a verified result behind."""


async def serve(engine_address: str, resources: Mapping[str, Resource]) -> None:
    """Serve until a signal arrives or the engine is gone. The first line on stdout is the port."""
    link = EngineLink(engine_address)
    servicer = Servicer(resources, link, version("pulumi-infercrane"))
    sizes = [(f"grpc.max_{way}_message_length", MAX_MESSAGE_BYTES) for way in ("receive", "send")]
    server = grpc.aio.server(options=sizes)
    add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    grace_s = await _until_asked_to_stop(link)
    servicer.stop_waiting()
    await server.stop(grace_s)
    await link.close()


async def _until_asked_to_stop(link: EngineLink) -> float:
    """Seconds that running calls may still take."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    ends = {asyncio.create_task(stopped.wait()), asyncio.create_task(engine_gone(link))}
    _, waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    return STOP_GRACE_S if stopped.is_set() else ORPHAN_GRACE_S


def main() -> None:
    """Console script. Flags that we do not know (`--logtostderr`, `-v=9`, `--tracing`) are ignored."""
    parser = argparse.ArgumentParser(prog="pulumi-resource-infercrane", description=__doc__)
    parser.add_argument("engine", nargs="?", default="", help="address of the engine; none when it attaches later")
    known, _ = parser.parse_known_args()
    logging.basicConfig(stream=sys.stderr)
    asyncio.run(serve(known.engine, find_resources()))


if __name__ == "__main__":
    main()
