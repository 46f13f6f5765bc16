"""YAML with the line of every key, so that a finding can point at it. Duplicate keys are an error, not a choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import yaml
from yaml.reader import ReaderError

from pulumi_infercrane.guard.files import why
from pulumi_infercrane.stacks.errors import ConfigError

Path = tuple[str, ...]


@dataclass(frozen=True)
class Located:
    """A mapping and the 1-based line of each path of keys in it."""

    value: Mapping[str, Any]
    lines: Mapping[Path, int]

    def at(self, path: Sequence[str]) -> int | None:
        """Line of `path`, or of the nearest block around it."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(tuple(path[:length]))
            if line is not None:
                return line
        return None


def read_yaml(file: FilePath) -> Located:
    """The YAML mapping in a file, whose name messages say.

    Raises:
        ConfigError: the file cannot be read; or as `load_yaml`.
    """
    try:
        return load_yaml(file.read_text(encoding="utf-8"), file.name)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {why(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 at byte {error.start}: save it as UTF-8 text") from error


def load_yaml(text: str, source: str) -> Located:
    """Parse a YAML mapping.

    Raises:
        ConfigError: not YAML, not a mapping, a key given twice, or a NUL in a text; with source and line.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{source}{line}: not valid YAML: {error.problem}") from error
    except ReaderError as error:
        place = f"{source}:{text.count(chr(10), 0, error.position) + 1}"
        raise ConfigError(f"{place}: not valid YAML: the character {chr(error.character)!a}") from error
    except ValueError as error:
        raise ConfigError(f"{source}: not valid YAML: {error}; put a text that looks like a date in quotes") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: not valid YAML: nested too deep") from error
    if value is None:
        return Located({}, {})
    if not isinstance(value, dict) or node is None:
        raise ConfigError(f"{source}: not a mapping of keys to values")
    lines: dict[Path, int] = {}
    _walk(node, (), lines, source)
    return Located(value, lines)


def _walk(node: yaml.Node, path: Path, lines: dict[Path, int], source: str) -> None:
    """Collect the lines; also refuse what neither a file's name nor a program's argument can be."""
    if isinstance(node, yaml.ScalarNode) and "\0" in node.value:
        raise ConfigError(f"{source}:{node.start_mark.line + 1}: a text cannot have a NUL in it")
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            here = (*path, str(key.value))
            line = key.start_mark.line + 1
            if here in lines:
                raise ConfigError(f"{source}:{line}: {here[-1]!r} is given twice, first in line {lines[here]}")
            lines[here] = line
            _walk(child, here, lines, source)
    elif isinstance(node, yaml.SequenceNode):
        for number, child in enumerate(node.value):
            here = (*path, str(number))
            lines[here] = child.start_mark.line + 1
            _walk(child, here, lines, source)
