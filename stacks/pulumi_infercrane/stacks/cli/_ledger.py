"""Decision records from files a command is given by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard import GuardError, Ledger


def decisions_of(ledger: Path, without: str) -> list[Mapping[str, Any]]:
    """The decisions of a ledger, oldest first; `without` says how to do without one.

    A misspelt name must not start a ledger anew: what earlier decisions used and how often they looked would be
    forgotten.

    Raises:
        GuardError: when there is no such file, its chain is broken, or an entry holds no decision record.
    """
    if not ledger.is_file():
        raise GuardError(f"{ledger}: no such ledger; {without}")
    return [checked(entry.decision, ledger) for entry in Ledger(ledger).entries()]


def checked(document: Any, file: Path) -> Mapping[str, Any]:
    """The document of a file, when it is a decision record.

    Raises:
        GuardError: names the file and the first field that is missing or wrong.
    """
    from pulumi_infercrane.guard.recorded import check_record  # types that `check` without a ledger has no use for

    try:
        return check_record(document)
    except GuardError as error:
        raise GuardError(f"{file}: {error}") from error
