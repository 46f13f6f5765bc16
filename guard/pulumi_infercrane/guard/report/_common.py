"""What every format shows: the headline, one row per rule, and which required kinds have no evidence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pulumi_infercrane.guard.printable import one_line, short
from pulumi_infercrane.guard.report import Context

NOTHING = "-"
LEFT_OUT = "… and {} more: see the decision record"

_HEADLINES = {  # by action where traffic is decided on, else by verdict
    ("promotion", "advance"): "PROMOTE: the candidate may have the first share of the traffic",
    ("promotion", "promote"): "PROMOTE: the candidate may take over",
    ("promotion", "reject"): "REJECT: the active revision keeps serving",
    ("promotion", "insufficient_evidence"): "INSUFFICIENT EVIDENCE: the active revision keeps serving",
    ("bootstrap", "promote"): "BOOTSTRAP: the first revision of this service may serve",
    ("bootstrap", "reject"): "REJECT: nothing serves yet",
    ("bootstrap", "insufficient_evidence"): "INSUFFICIENT EVIDENCE: nothing serves yet",
    ("rollback", "promote"): "ROLLBACK: an earlier revision may take over again",
    ("override", "promote"): "OVERRIDE: the target takes over by order, without evidence",
    ("canary_step", "advance"): "ADVANCE: the candidate may have the next share of the traffic",
    ("canary_step", "flip"): "FLIP: the candidate may take over",
    ("canary_step", "hold"): "HOLD: the candidate gets no more traffic yet",
    ("canary_step", "rollback"): "ROLLBACK: the candidate gets no more traffic, the active revision all of it",
    ("post_promotion", "hold"): "HOLD: the watch goes on",
    ("post_promotion", "keep"): "KEEP: the watch ends, the new revision stays",
    ("post_promotion", "rollback"): "ROLLBACK: the revision that served before takes over again",
}
_WEIGHT = {"fail": 0, "unknown": 1, "waived": 2, "not_applicable": 4}
_PASSED = 3


@dataclass(frozen=True)
class Row:
    """A rule as people read it. Every figure is text on one line, `-` where there is none."""

    rule: str
    kind: str
    weight: str
    """`H` hard, `S` soft."""
    required: bool
    outcome: str
    code: str
    estimate: str
    interval: str
    limit: str
    n: str
    reason: str
    """The reason code with the figures behind it."""
    needs: str
    """What would settle an unknown; empty when there is nothing to say."""
    notes: tuple[str, ...]

    @property
    def settled(self) -> bool:
        """Nothing about this rule stands in the way."""
        return self.outcome not in ("fail", "unknown")

    @property
    def message(self) -> str:
        """Reason and what would settle it, on one line."""
        return f"{self.reason}; {self.needs}" if self.needs else self.reason

    @property
    def figures(self) -> str:
        """`estimate 1.04, interval [0.98, 1.1], limit 1.15, n 2000 / 2000`."""
        return f"estimate {self.estimate}, interval {self.interval}, limit {self.limit}, n {self.n}"


def rows(record: Mapping[str, Any]) -> list[Row]:
    """One row per rule, in policy order."""
    return [_row(rule) for rule in record["rules"]]


def worst_first(found: Iterable[Row]) -> list[Row]:
    """Fails (hard before soft), then unknowns (required before others), then the rest, each in policy order."""
    return sorted(found, key=_rank)


def _rank(row: Row) -> tuple[int, bool]:
    lesser = row.weight != "H" if row.outcome == "fail" else not row.required
    return _WEIGHT.get(row.outcome, _PASSED), lesser


def _row(rule: Mapping[str, Any]) -> Row:
    name = one_line(rule["rule"])
    code = one_line(rule["reasons"][0])
    detail = one_line(rule.get("detail", ""))
    return Row(
        rule=name,
        kind=name.partition(".")[0],
        weight=one_line(rule["class"]),
        required=bool(rule.get("required", False)),
        outcome=one_line(rule["outcome"]),
        code=code,
        estimate=figure(rule.get("estimate")),
        interval=f"[{figure(rule.get('lo'))}, {figure(rule.get('hi'))}]" if "lo" in rule else NOTHING,
        limit=figure(rule.get("limit")),
        n=" / ".join(one_line(n) for n in rule.get("n", ())) or NOTHING,
        reason=f"{code}: {detail}" if detail else code,
        needs=one_line(rule.get("needs", "")),
        notes=tuple(one_line(note) for note in rule.get("notes", ())),
    )


def headline(record: Mapping[str, Any]) -> str:
    """`REJECT: the active revision keeps serving`."""
    kind, verdict = record["decision_type"], record["verdict"]
    known = _HEADLINES.get((kind, record["action"])) or _HEADLINES.get((kind, verdict))
    return known or one_line(f"{kind}: {verdict}")


def last_flip(record: Mapping[str, Any]) -> str:
    """Until when the route may be moved by this decision; empty for one that does not let it."""
    return str(record.get("expires_at", "")) if record["verdict"] == "promote" else ""


def baseline_role(record: Mapping[str, Any]) -> str:
    """What the baseline is at the time of the decision: `active`, or `previous` once the candidate took over."""
    return "previous" if record["decision_type"] == "post_promotion" else "active"


def reasons(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What decided, first things first: reason, and what would settle it. Empty when a promotion passed."""
    if record["verdict"] == "promote" and record["decision_type"] == "promotion":
        return []
    settling = {line: needs for rule in record["rules"] for line, needs in _settling(rule)}
    return [_split(reason, settling) for reason in record["reasons"]]


def _settling(rule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How a rule's reason reads, alone and for its whole kind, with what would settle it."""
    if "needs" in rule:
        for subject in (rule["rule"], rule["rule"].partition(".")[0]):
            yield f"{subject}: {rule['reasons'][0]}: {rule.get('detail', '')}", rule["needs"]


def _split(reason: str, settling: Mapping[str, str]) -> tuple[str, str]:
    """A reason and what would settle it, which may end its line."""
    needs = settling.get(reason, "")
    if not needs:
        needs = next((needs for needs in settling.values() if reason.endswith(f"; {needs}")), "")
        reason = reason.removesuffix(f"; {needs}") if needs else reason
    return one_line(reason), one_line(needs)


def remarks(entry: Mapping[str, Any]) -> list[str]:
    """About a piece of evidence: why it does not count, and that its tool did not end well, which decides nothing."""
    ended = entry.get("exit_code")
    return [*entry["reasons"], *([f"its tool ended with exit code {ended}"] if ended else [])]


def revision(digest: str, context: Context) -> str:
    """`r2 (0a1b2c3d4e5f)`, or the digits alone where no name is known."""
    name = context.names.get(digest)
    return f"{one_line(name)} ({short(digest)})" if name else short(digest)


def described(digest: str, context: Context) -> str:
    """`hf://org/name@0f1e2d3c4b5a, llama.cpp b1, 2 × H100`, as its evidence says; empty where none is about it."""
    items = context.evidence.about(digest).items if context.evidence else ()
    found = next((item.envelope.subject for item in items if item.envelope), None)
    if found is None:
        return ""
    engine, accelerator, pin = found.engine, found.accelerator, (found.model.commit or "")[:12]
    words = (
        f"{found.model.source}@{pin}" if pin else found.model.source,
        found.quantization,
        f"{engine.name} {engine.version}",
        f"{accelerator.count} × {accelerator.sku}",
    )
    return one_line(", ".join(filter(None, words)))


def places(context: Context) -> Mapping[str, str]:
    """Paths of the envelopes below the evidence folder by `sha256:…`; a record does not hold them."""
    return {item.sha256: item.path for item in context.evidence.items} if context.evidence else {}


def kinds_without_evidence(record: Mapping[str, Any]) -> list[str]:
    """Required kinds of which nothing about the candidate counts. A decision that asks for no evidence has none."""
    if record["verdict"] == "promote":
        return []
    present = {entry["kind"] for entry in record["evidence"] if entry["used"] and entry["role"] == "candidate"}
    return [one_line(kind) for kind in record.get("required_kinds", ()) if kind not in present]


def figure(value: float | str | None) -> str:
    """Three significant digits; an infinite figure stands in the record as a word."""
    if value is None:
        return NOTHING
    return one_line(value) if isinstance(value, str) else f"{value:.3g}"


def web_link(context: Context) -> str:
    """The link as a web address that cannot end early wherever it is written; empty when it is no web address."""
    if not context.link.startswith(("https://", "http://")):
        return ""
    return quote(one_line(context.link), safe=":/?=&%~,;+#")


def fitting(lines: Sequence[str], most_bytes: int) -> Iterator[str]:
    """The lines that fit in `most_bytes` of UTF-8 with their line ends, and how many were left out."""
    room = most_bytes - len(LEFT_OUT) - 10
    for index, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            yield LEFT_OUT.format(len(lines) - index)
            return
        yield line
