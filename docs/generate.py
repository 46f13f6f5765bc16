"""What of the documentation is generated: `python docs/generate.py` writes it, a test compares it.

The table of readers in readers.md, and schemas/*.json.
"""

import json
from pathlib import Path

from pulumi_infercrane.guard.evidence.readers import find_reader, known_tools
from pulumi_infercrane.guard.schemas import names, schema_of

DOCS = Path(__file__).parent
BEGIN, END = "<!-- generated: readers -->\n", "<!-- end -->\n"


def readers_table() -> str:
    """A row for each reader that the registry finds."""
    rows = ["| tool | versions | reads | cannot know |", "|---|---|---|---|"]
    for tool in known_tools():
        reader = find_reader(tool)
        versions = ", ".join(reader.VERSIONS) or "told by its keys"
        rows.append(f"| `{tool}` | {versions} | {_cell(reader.READS)} | {_cell(reader.CANNOT_KNOW)} |")
    return "\n".join(rows) + "\n"


def readers_page(page: str) -> str:
    """The page with the table of today between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + readers_table() + END + after


def schemas() -> dict[str, str]:
    """Content of every file below `schemas/`, by name."""
    return {f"{name}.json": json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n" for name in names()}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write everything."""
    page = DOCS / "readers.md"
    page.write_text(readers_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, content in schemas().items():
        (DOCS / "schemas" / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
