"""Private key files: Ed25519 in PEM (PKCS 8), mode 0600, never overwritten, with a passphrase or without."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pulumi_infercrane.guard.errors import TrustError
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.trust.dsse import key_id, signed_bytes, to_base64

MAX_BYTES = 64 * 1024
_ENCRYPTED = "is encrypted: name the variable that holds its passphrase with --passphrase-env"


@dataclass(frozen=True)
class SigningKey:
    """A private key in use; only its public half can be read from it."""

    public_key: bytes
    """32 raw bytes."""
    _signature: Callable[[bytes], bytes] = field(repr=False)

    @property
    def id(self) -> str:
        return key_id(self.public_key)

    def sign(self, payload_type: str, body: bytes) -> dict[str, str]:
        """`{"keyid", "sig"}` over a body of a type."""
        return {"keyid": self.id, "sig": to_base64(self._signature(signed_bytes(payload_type, body)))}


def new_key(path: Path, passphrase: str = "") -> SigningKey:
    """Make a key and write it to a file only its owner can read.

    Raises:
        TrustError: when the file exists already, or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    encryption = (
        serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    )
    _write_new(
        path,
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption),
    )
    return SigningKey(private.public_key().public_bytes_raw(), private.sign)


def load_key(path: Path, passphrase: str = "") -> SigningKey:
    """The key in a file.

    Raises:
        TrustError: when the file cannot be read, others can read it, it holds no Ed25519 key, or the passphrase is
            missing, wrong or not needed.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = _read_private(path)
    try:
        private = serialization.load_pem_private_key(data, passphrase.encode() if passphrase else None)
    except TypeError as error:
        need = "is not encrypted, leave the passphrase out" if passphrase else _ENCRYPTED
        raise TrustError(f"{path}: the key {need}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise TrustError(f"{path}: no private key in PEM form, or the passphrase is another one") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise TrustError(f"{path}: not an Ed25519 key: make one with `infercrane guard keygen`")
    return SigningKey(private.public_key().public_bytes_raw(), private.sign)


def _write_new(path: Path, data: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise TrustError(f"{path}: exists already, and a key is never overwritten: choose another name") from error
    except OSError as error:
        raise TrustError(f"{path}: cannot be written: {why(error)}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()
        raise TrustError(f"{path}: cannot be written: {why(error)}") from error


def _read_private(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(MAX_BYTES)
    except OSError as error:
        raise TrustError(f"{path}: the key cannot be read: {why(error)}") from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TrustError(f"{path}: others can read this key: `chmod 600 {path}`, or better, replace it")
    return data
