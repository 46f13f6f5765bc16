"""A policy that is named by its file."""

from pathlib import Path

from pulumi_infercrane.guard import Policy, PolicyError, load_policy
from pulumi_infercrane.guard.files import why


def read_policy(file: Path, source: str = "") -> Policy:
    """The policy in a file, which messages call `source`; default: the path as it was given.

    Raises:
        PolicyError: the file cannot be read, or is no policy.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PolicyError(f"{file}: the policy cannot be read: {why(error)}") from error
    return load_policy(data, source=source or str(file))
