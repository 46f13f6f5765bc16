"""The certificate of the data listener: read from files, replaced without touching a connection."""

import asyncio
import logging
import ssl
from contextlib import suppress
from pathlib import Path

from pulumi_infercrane.router.errors import CertificateRefused

LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """What new connections are shown. Open ones keep what they began with.

    `context` is for the listener: it asks for the certificate of the moment at every handshake.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        """`chain` and `key` are PEM files.

        Raises:
            CertificateRefused: they cannot be read, or do not belong together.
        """
        self._chain = chain
        self._key = key
        self._stamp = self._stamp_now()
        self._current = self._read()
        self.context = self._read()
        self.context.sni_callback = self._show_current

    def reload(self) -> None:
        """Take what the files hold now; files that are no good change nothing and are told about."""
        self._stamp = self._stamp_now()
        try:
            self._current = self._read()
        except CertificateRefused as error:
            _log.error("%s; the certificate before it stays in use", error)
        else:
            _log.info("new connections get the certificate of %s as it is now", self._chain)

    async def follow(self, every_s: float = LOOK_EVERY_S) -> None:
        """Reload whenever a file has changed. Never returns."""
        while True:
            await asyncio.sleep(every_s)
            if self._stamp_now() != self._stamp:
                self.reload()

    def _show_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._chain, self._key, password="")  # never ask on the terminal
        except ssl.SSLError as error:
            why = f"not a certificate and its key in PEM ({error.reason or error})"
            raise CertificateRefused(f"certificate {self._chain}, key {self._key}: {why}") from error
        except (OSError, ValueError) as error:
            raise CertificateRefused(f"certificate {self._chain}, key {self._key}: {error}") from error
        return context

    def _stamp_now(self) -> _Stamp:
        """Differs when a file was written or replaced; nothing of a file that is away."""
        found = []
        for path in (self._chain, self._key):
            with suppress(OSError):  # it is being replaced, or may not be looked at
                found.append(path.stat())
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in found)
