"""What of the documentation is generated: `python docs/generate.py` writes it, a test compares it.

The table of readers in readers.md, the tables of policy.md and routing.md, the table of targets in exporters.md, and
schemas/*.json.
"""

import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pulumi_infercrane.guard.admission.change import FIELDS, NEEDS
from pulumi_infercrane.guard.evidence.readers import find_reader, known_tools
from pulumi_infercrane.guard.judging.rule import RuleForm
from pulumi_infercrane.guard.policy import PRODUCTION
from pulumi_infercrane.guard.rules import find_kind, known_kinds
from pulumi_infercrane.guard.schemas import names, schema_of
from pulumi_infercrane.guard.times import format_duration
from pulumi_infercrane.router.balance import known_policies
from pulumi_infercrane.router.export import ASPECTS, exporters, find_exporter
from pulumi_infercrane.router.protocol.paths import PROTOCOLS
from pulumi_infercrane.router.relay.probes import ANY_PATH, PATHS

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


def policy_page(page: str) -> str:
    """The page with the tables of today after their marks."""
    return _with_tables(page, (("changes", _changes()), ("rules", _rules()), ("ages", _ages())))


def routing_page(page: str) -> str:
    """The page with the tables of today after their marks."""
    return _with_tables(page, (("protocols", _protocols()), ("balance", _balance()), ("probes", _probes())))


def _with_tables(page: str, tables: Iterable[tuple[str, str]]) -> str:
    for name, table in tables:
        mark = f"<!-- generated: {name} -->\n"
        before, _, rest = page.partition(mark)
        page = before + mark + table + END + rest.partition(END)[2]
    return page


def _balance() -> str:
    """A row for each policy that the registry finds: the first paragraph of its module."""
    modules = [(name, importlib.import_module(f"pulumi_infercrane.router.balance.{name}")) for name in known_policies()]
    rows = [(f"`{name}`", _cell((module.__doc__ or "").partition("\n\n")[0])) for name, module in modules]
    return _table(("balance", "who answers"), rows)


def _protocols() -> str:
    """Where each protocol is spoken."""
    return _table(("protocol", "path"), [(f"`{name}`", f"`POST {path.decode()}`") for name, path in PROTOCOLS.items()])


def _probes() -> str:
    """Where each dialect is asked."""
    rows = [(f"`{dialect}`", f"`{path.decode()}`") for dialect, path in sorted(PATHS.items())]
    return _table(("dialect", "path"), [*rows, ("any other", f"`{ANY_PATH.decode()}`")])


def _changes() -> str:
    """What each class of change needs."""
    fields = {name: ", ".join(f"`{one}`" for one in members) for name, members in FIELDS.items()}
    rows = [(name, fields[name] or "none yet", ", ".join(NEEDS[name])) for name in FIELDS]
    return _table(("change", "fields of the subject", "kinds"), rows)


def _rules() -> str:
    """A row for each rule of each kind that the registry finds."""
    forms = [(rule, form) for kind in known_kinds() for rule, form in find_kind(kind).forms.items()]
    head = ("rule", "bound", "default", "in", "class", "`min_pass`", "`min_compute`", "of")
    return _table(head, [_rule(rule, form) for rule, form in forms])


def _rule(rule: str, form: RuleForm) -> tuple[str, ...]:
    default = "must be given" if form.default is None else f"{form.default:g}"
    least = (str(form.min_pass), str(form.min_compute), form.counts)
    return (f"`{rule}`", form.bound, default, form.unit, "H" if form.hard else "S", *least)


def _ages() -> str:
    """How old evidence of each kind may be."""
    kinds = [find_kind(name) for name in known_kinds()]
    ages = [(kind.name, kind.max_age, kind.max_age_in_production or kind.max_age) for kind in kinds]
    rows = [(name, format_duration(most), format_duration(fewer)) for name, most, fewer in ages]
    return _table(("kind", "oldest", " and ".join(f"`{stack}`" for stack in PRODUCTION)), rows)


def exporters_page(page: str) -> str:
    """The page with the table of targets after its mark."""
    mark = "<!-- generated: targets -->\n"
    before, _, rest = page.partition(mark)
    return before + mark + _targets() + END + rest.partition(END)[2]


def _targets() -> str:
    """A row for each aspect, a column for each target that the registry finds."""
    targets = [find_exporter(name) for name in exporters()]
    rows = [(aspect, *(_cell(target.DIFFERS[aspect]) for target in targets)) for aspect in ASPECTS]
    head = ("", *(f"`{name}`" for name in exporters()))
    return _table(head, [("is", *(target.TITLE for target in targets)), *rows])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def schemas() -> dict[str, str]:
    """Content of every file below `schemas/`, by name."""
    return {f"{name}.json": json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n" for name in names()}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write everything."""
    pages = (("readers.md", readers_page), ("policy.md", policy_page), ("routing.md", routing_page))
    for name, written in (*pages, ("exporters.md", exporters_page)):
        page = DOCS / name
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, content in schemas().items():
        (DOCS / "schemas" / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
