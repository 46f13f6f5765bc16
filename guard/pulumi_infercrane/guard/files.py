"""Writing files that are whole or not there, and why one cannot be read or written."""

import errno
import os
import tempfile
from pathlib import Path

_WHY = {
    errno.ENOENT: "there is no such file or folder",
    errno.EISDIR: "it is a folder, and a file is meant",
    errno.ENOTDIR: "a part of the path is a file, and a folder is meant",
    errno.EACCES: "this user has no permission",
    errno.EPERM: "this user has no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
}


def why(error: OSError) -> str:
    """Why the system refused, without its number; in its own words where there are none of ours."""
    return _WHY.get(error.errno or 0) or error.strerror or str(error)


def write_whole(path: Path, data: bytes) -> None:
    """The file appears under its name with all its bytes on disk, or not at all.

    Raises:
        OSError: when it cannot be written; what was there before is untouched.
    """
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
