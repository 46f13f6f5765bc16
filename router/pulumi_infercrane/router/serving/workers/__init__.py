"""Several processes that serve clients of one listening socket by one table.

| where | what |
|---|---|
| `supervisor` | the process that was started: sockets, lock, control protocol; the only one that writes |
| `crew` | its workers: starting and replacing them, having them follow a change, summing up what they count |
| `worker` | a process that serves clients and follows the supervisor |
| `channel` | the socket between the two: JSON lines |
| `shares`, `totals` | limits divided among workers, counters of all of them |
| `handover` | what a supervisor leaves to the program that replaces it |

A change is acknowledged when every worker goes by it. One that does not say so in time is killed, and its end
waited for: whatever is dispatched after the acknowledgement goes by the change.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pulumi_infercrane.router.serving.workers.channel import WORKER

if TYPE_CHECKING:
    from pulumi_infercrane.router.addresses import Listening
    from pulumi_infercrane.router.serving.server import Settings


def run(settings: "Settings", environment: Mapping[str, str], on_ready: "Callable[[Listening], None]") -> None:
    """Be the supervisor, or the worker it has started.

    Raises:
        RouterError: as `serve`; or the workers do not start.
    """
    if WORKER in environment:
        from pulumi_infercrane.router.serving.workers.worker import work

        work(settings, environment)
    else:
        from pulumi_infercrane.router.serving.workers.supervisor import supervise

        supervise(settings, environment, on_ready)
