"""JUnit XML: one suite per kind of evidence, one case per rule.

A rule that fails is a `<failure>`, one that cannot be judged an `<error>`; `<skipped>` is never written, because most
viewers show it as success. A required kind without evidence is a case of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pulumi_infercrane.guard.printable import one_line
from pulumi_infercrane.guard.report import RECORD_ALONE, Context
from pulumi_infercrane.guard.report._common import Row, headline, kinds_without_evidence, reasons, rows

_PACKAGE = "infercrane"


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The document. A decision without any rule has one case, so that no viewer takes nothing for success."""
    suites = [_suite(kind, record, context) for kind in _kinds(record)] or [_decision(record)]
    root = Element("testsuites", name=f"{_PACKAGE} {one_line(record['service'])}")
    root.attrib |= {name: count for name, count in _counts(suites).items() if name != "skipped"}
    root.extend(suites)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _kinds(record: Mapping[str, Any]) -> list[str]:
    """Kinds with a rule or a requirement, in policy order."""
    return list(dict.fromkeys([*(row.kind for row in rows(record)), *kinds_without_evidence(record)]))


def _suite(kind: str, record: Mapping[str, Any], context: Context) -> Element:
    cases = [_rule_case(row, context) for row in rows(record) if row.kind == kind]
    if kind in kinds_without_evidence(record):
        cases.insert(0, _missing_case(kind))
    suite = Element("testsuite", name=kind, timestamp=one_line(record["as_of"]))
    suite.attrib |= _counts(cases)
    suite.append(_properties(record))
    suite.extend(cases)
    return suite


def _counts(parts: list[Element]) -> dict[str, str]:
    """Tests, failures and errors in cases or suites."""
    cases = [case for part in parts for case in part.iter("testcase")]
    failures, errors = (sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error"))
    return {"tests": str(len(cases)), "failures": str(failures), "errors": str(errors), "skipped": "0", "time": "0"}


def _properties(record: Mapping[str, Any]) -> Element:
    properties = Element("properties")
    for name in ("verdict", "decision_id", "candidate", "baseline", "policy_digest"):
        if name in record:
            SubElement(properties, "property", name=name, value=one_line(record[name]))
    return properties


def _rule_case(row: Row, context: Context) -> Element:
    case = _case(row.kind, row.rule)
    text = "\n".join(_lines(row, context))
    if row.outcome == "fail":
        SubElement(case, "failure", type=row.code, message=row.message).text = text
    elif row.outcome == "unknown":
        SubElement(case, "error", type=row.code, message=row.message).text = text
    else:
        SubElement(case, "system-out").text = text
    return case


def _lines(row: Row, context: Context) -> Iterator[str]:
    yield row.reason
    yield row.figures
    if row.rule in context.lines:
        yield f"{one_line(context.policy)}:{context.lines[row.rule]}"
    if row.needs:
        yield f"what would settle it: {row.needs}"
    yield from row.notes


def _missing_case(kind: str) -> Element:
    case = _case(kind, f"{kind} evidence")
    message = f"{kind} is required, and no evidence of it about the candidate counts"
    SubElement(case, "error", type="no_evidence", message=message).text = message
    return case


def _decision(record: Mapping[str, Any]) -> Element:
    suite = Element("testsuite", name="decision", timestamp=one_line(record["as_of"]))
    case = _case("decision", one_line(record["decision_type"]))
    if record["verdict"] == "promote":
        SubElement(case, "system-out").text = headline(record)
    else:
        text = "\n".join(reason for reason, _ in reasons(record))
        SubElement(case, "error", type=one_line(record["verdict"]), message=headline(record)).text = text
    suite.attrib |= _counts([case])
    suite.extend([_properties(record), case])
    return suite


def _case(kind: str, name: str) -> Element:
    return Element("testcase", classname=f"{_PACKAGE}.{kind}", name=name, time="0")
