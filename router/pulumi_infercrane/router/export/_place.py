"""Where an exported proxy finds its files and listens."""

import re
from dataclasses import dataclass
from pathlib import Path

from pulumi_infercrane.router.addresses import ListenAddress
from pulumi_infercrane.router.errors import ExportRefused

_PLAIN = re.compile(r"/[A-Za-z0-9._/+-]*")
_LONGEST = 80
"""Control sockets lie in the folder; their paths may have about 100 bytes."""
_HOST = re.compile(r"[A-Za-z0-9.:-]+")


@dataclass(frozen=True)
class Place:
    """A folder by its absolute path, and the address the proxy listens on."""

    folder: Path
    listen: ListenAddress

    def path(self, name: str) -> str:
        """Absolute path of a file in the folder."""
        return str(self.folder / name)


def read_place(folder: Path, listen: str) -> Place:
    """The place of a command line.

    Raises:
        ExportRefused: a folder whose name would need quoting, or not host:port.
    """
    absolute = folder.absolute()
    if not _PLAIN.fullmatch(str(absolute)) or len(str(absolute)) > _LONGEST:
        raise ExportRefused(f"{absolute}: take a folder of at most {_LONGEST} characters out of A-Z a-z 0-9 . _ / + -")
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host) or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ExportRefused(f"{listen!r} is not host:port, for example 127.0.0.1:8080")
    return Place(absolute, ListenAddress(host, int(port)))
