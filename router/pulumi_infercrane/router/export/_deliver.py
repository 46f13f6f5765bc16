"""A table written for a proxy and, where one runs on the folder, made live and looked at."""

import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass

from pulumi_infercrane.router.errors import ExportNotLive
from pulumi_infercrane.router.export import Exporter, find_exporter
from pulumi_infercrane.router.export._files import RECORD, changed, read_folder, record, replace_file
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.tables.table import RouteTable

LIVE_S = 10.0
_PAUSE_S = 0.01


@dataclass(frozen=True)
class Delivered:
    """`written` names the files that changed; `live` is False when no proxy runs on the folder."""

    generation: int
    written: tuple[str, ...]
    live: bool


def deliver(target: str, table: RouteTable, place: Place) -> Delivered:
    """Write what changed, tell the proxy, wait until it serves by it. Safe to repeat.

    Raises:
        ExportRefused: nothing was written.
        ExportNotLive: written, but the running proxy does not serve by it within 10 s.
    """
    exporter: Exporter = find_exporter(target)
    after = exporter.render(table, place)
    before, settled = read_folder(place.folder, target, table)
    replace_file(place.folder, RECORD, record(target, table, {**before, **after}, delivered=False))
    written: list[str] = []
    live = False
    for stage in exporter.stages(before, after):
        names = tuple(changed(before, stage) if settled else stage)
        for name in names:
            replace_file(place.folder, name, stage[name])
        before = {**before, **stage}
        live = exporter.tell(place, stage, names)
        written += names
    for name in before.keys() - after.keys():
        (place.folder / name).unlink(missing_ok=True)
    if live:
        until(lambda: served_generation(place) == str(table.generation), f"generation {table.generation}", place)
    replace_file(place.folder, RECORD, record(target, table, after, delivered=True))
    return Delivered(table.generation, tuple(written), live)


def served_generation(place: Place) -> str:
    """What the proxy says when it is asked for its models, on a connection of its own; empty without an answer."""
    connection = http.client.HTTPConnection(place.listen.host, place.listen.port, timeout=LIVE_S)
    try:
        connection.request("GET", "/v1/models")
        return connection.getresponse().getheader("X-InferCrane-Generation", "")
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def until(condition: Callable[[], bool], what: str, place: Place) -> None:
    """Wait for something the proxy does by itself.

    Raises:
        ExportNotLive: it did not.
    """
    deadline = time.monotonic() + LIVE_S
    while not condition():
        if time.monotonic() > deadline:
            raise ExportNotLive(f"the proxy on {place.listen} does not serve {what} after {LIVE_S:.0f} s")
        time.sleep(_PAUSE_S)
