"""Which tools' readers know a file, told by the file alone: what a person says about it may be wrong, or be missing."""

from collections.abc import Callable, Iterable, Mapping

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.readers import find_reader
from pulumi_infercrane.guard.reasons import Inadmissible, gate_rank


def knowing(
    tools: Iterable[str], kinds: Iterable[str], parts: Mapping[str, bytes], described: Callable[[str, str], Envelope]
) -> list[str]:
    """The tools whose readers know such a file when asked for one of `kinds`, whether they would take it or not.

    `described(tool, kind)` is an envelope that lacks nothing. The version is not looked at.
    """
    kinds = tuple(kinds)
    return [tool for tool in tools if any(_knows(tool, parts, described(tool, kind)) for kind in kinds)]


def _knows(tool: str, parts: Mapping[str, bytes], envelope: Envelope) -> bool:
    try:
        find_reader(tool).read(parts, envelope)
    except Inadmissible as error:
        code = error.problem.code
        return code == "ambiguous_run" or gate_rank(code) > gate_rank("schema_unknown")
    return True
