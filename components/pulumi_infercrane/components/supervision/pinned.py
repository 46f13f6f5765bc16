"""Files a process reads, pinned by sha256: a revision's digest is only worth something if the bytes are those."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.supervision.starting import find_program
from pulumi_infercrane.guard.files import why


class PinnedFileDiffers(ComponentError):
    """A file is not what the revision says it is."""

    code = "file_differs"


def missing(file: Mapping[str, str]) -> str:
    """Why a pinned file cannot be read at all; empty when it can."""
    path = _located(file["path"])
    if path is None or not path.exists():
        return f"{file['path']}: no such file"
    return "" if path.is_file() and path.stat().st_size else f"{path}: not a file, or empty"


def verify(files: Iterable[Mapping[str, str]]) -> None:
    """Read every file and compare. Takes about a second for each GB, so it is done before a start, not in previews.

    Raises:
        PinnedFileDiffers: naming the file and both digests.
    """
    for file in files:
        path = _located(file["path"])
        found = _digest(path) if path else "nothing"
        if found != file["sha256"]:
            raise PinnedFileDiffers(
                f"{file['path']} has sha256 {found}, the revision says {file['sha256']}: "
                "fetch the file again, or declare a new revision with the digest it has"
            )


def _located(path: str) -> Path | None:
    """Paths as they are; a bare name is a program on PATH."""
    if "/" in path:
        return Path(path)
    found = find_program(path)
    return Path(found) if found else None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PinnedFileDiffers(f"{path}: cannot be read: {why(error)}") from error
