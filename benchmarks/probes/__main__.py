"""Asks every data plane every probe: `make probes`, a few minutes; rewrites docs/probes.md.

`python -m benchmarks.probes nginx envoy` asks these alone, and keeps what is known of the others.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.probes import page
from benchmarks.probes.peers import PEERS, Asked
from tests.router.probes import Stage, all_probes, verdict
from tests.router.upstream import Upstream
from tests.runtimes.downloads import PrepareError

READY_S = 90


def main(names: Sequence[str]) -> None:
    results = page.results()
    for name in names or list(PEERS):
        try:
            results = results.with_peer(name, PEERS[name].version(), asyncio.run(_asked(name, PEERS[name])))
        except (PrepareError, subprocess.CalledProcessError, TimeoutError, AssertionError) as error:
            print(f"{name}: left out: {error}")
    page.write(results)


async def _asked(name: str, peer: Asked) -> dict[str, str]:
    """What is lost, by probe."""
    upstream, lost = Upstream(), dict[str, str]()
    await upstream.start()
    with tempfile.TemporaryDirectory(prefix="icp") as folder:
        runs = peer.start(upstream.url, Path(folder))
        stage = Stage(0, upstream, peer.headers)
        stage.reset()
        stage.port = await asyncio.to_thread(runs.__enter__)
        try:
            await _ready(stage)
            for probe in all_probes():
                lost[probe.holds] = await verdict(probe, stage)
                print(f"{name}: {probe.name} {probe.holds}: {lost[probe.holds] or 'holds'}", flush=True)
        finally:
            await asyncio.to_thread(runs.__exit__, None, None, None)
            await upstream.stop()
    return lost


async def _ready(stage: Stage) -> None:
    """Once a request passes."""
    async with asyncio.timeout(READY_S):
        while True:
            try:
                async with await stage.client() as client:
                    if (await client.ask(stage.chat(False))).status == 200:
                        return
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                pass
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1:])
