"""The page: whole, without script or address, every drawing described, and nothing in it but text."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pulumi_infercrane.guard.evidence.records import Answer, Cost, Quality
from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.printable import short
from pulumi_infercrane.guard.report._forest import margin_used
from pulumi_infercrane.guard.report.html import render
from pulumi_infercrane.guard.report.plots import cost, quality

VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """Every element with its attributes; refuses elements that are closed in another order than they were opened."""

    def __init__(self, document):
        super().__init__()
        self.elements, self.text, self._open = [], [], []
        self.feed(document)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def test_every_decision_is_a_whole_page_that_loads_nothing(any_decision):
    page = Page(any_decision.report("html"))
    assert {"script", "link", "img", "iframe", "object", "foreignobject"} & {tag for tag, _ in page.elements} == set()
    assert page.all("meta")[1]["content"].startswith("default-src 'none'")
    addresses = [
        value for _, attributes in page.elements for name, value in attributes.items() if "url(" in (value or "")
    ]
    assert set(addresses) <= {"url(#hatch)", "url(#dots)"}
    assert not any(name.startswith("on") or name in ("src", "style") for _, a in page.elements for name in a)
    assert [attributes["href"][:10] for attributes in page.all("a")] in ([], ["https://ci"], ["https://x/"])


def test_every_drawing_has_a_title_and_a_description(rejected):
    page = Page(rejected.report("html"))
    drawings = [attributes for attributes in page.all("svg") if attributes.get("role") == "img"]
    named = {one["id"] for tag in ("title", "desc") for one in page.all(tag) if "id" in one}
    assert len(drawings) == 5
    assert {name for one in drawings for name in one["aria-labelledby"].split()} == named
    assert len(named) == 10
    rest = [attributes for attributes in page.all("svg") if attributes.get("aria-hidden") == "true"]
    assert rest


def test_the_page_tells_the_whole_story(rejected):
    words = Page(rejected.report("html")).words
    for part in ("REJECT", "Because", "Intervals against limits", "Time to first token", "Paired answers", "Evidence"):
        assert part in words
    assert "lost: 40" in words
    assert "the same: 20, of them 20 right on both sides" in words


def test_a_revision_is_told_by_its_name_and_by_what_its_evidence_says_it_is(rejected):
    digest = rejected.record["candidate"]
    named = replace(rejected.context, names={digest: "r<2>"})
    page = Page(render(rejected.record, named))
    assert f"candidate r<2> ({short(digest)}): file:model.gguf, llama.cpp b1, 1 × host" in page.words
    assert f"r<2> {short(digest)}" in page.words  # beside its evidence
    assert f"candidate {short(digest)} active" in Page(render(rejected.record)).words


def test_a_record_alone_has_no_measurements(rejected):
    words = Page(render(rejected.record)).words
    assert "Intervals against limits" in words
    assert "Measurements" not in words


def test_latencies_carry_their_limit_and_their_failures(folder, decided):
    folder.both().benchmark("candidate", folder.seconds(150), failed=3)
    words = Page(decided().report("html")).words
    assert "p95: active" in words
    assert ", limit " in words
    assert "3 of 150" in words


def test_a_side_that_answered_nothing_is_drawn_as_never(folder, decided):
    folder.both().benchmark("candidate", folder.seconds(150), failed=150)
    assert "never [never, never]" in Page(decided().report("html")).words


@pytest.mark.parametrize(
    ("rule", "used"),
    [
        ({"method": "bootstrap_ratio", "lo": 1.0, "estimate": 1.1, "hi": 1.2, "limit": 1.2}, (0, 0.5, 1)),
        ({"method": "agresti_min", "lo": -0.04, "estimate": -0.02, "hi": 0.01, "limit": -0.02}, (-0.5, 1, 2)),
        ({"method": "clopper_pearson", "lo": 0.0, "estimate": 0.005, "hi": 0.02, "limit": 0.01}, (0, 0.5, 2)),
        (
            {"method": "bootstrap_ratio", "lo": 1.0, "estimate": "inf", "hi": "inf", "limit": 1.5},
            (0, float("inf"), float("inf")),
        ),
    ],
)
def test_an_interval_is_measured_in_margins(rule, used):
    found = margin_used(rule)
    assert (found.lo, found.estimate, found.hi) == pytest.approx(used)


@pytest.mark.parametrize("rule", [{}, {"lo": 0.0, "estimate": 0.0, "hi": 0.1, "limit": 0.0, "method": "newcombe"}])
def test_no_interval_or_no_margin_is_not_drawn(rule):
    assert margin_used(rule) is None


def test_pairs_average_repeated_passes_and_count_what_is_missing_as_lost():
    def passed(**scores):
        answers = {
            item: Answer(score, ok=True, empty=False, cut=False, text_sha256="") for item, score in scores.items()
        }
        return Member(None, Quality("basics", "exact", "", answers))

    baseline = (passed(a=1.0, b=0.0, c=1.0, d=0.0), passed(a=1.0, b=1.0, c=1.0, d=0.0))
    pairs = quality.paired("basics", Sides((passed(a=1.0, b=1.0, d=0.0),), baseline))
    assert pairs == quality.Pairs(lost=1, gained=1, same=2, right=1)


def test_costs_are_pooled_and_drawn_side_by_side():
    def window(cost_of, tokens, currency="USD"):
        return Member(
            None, Cost(currency, 3600.0, cost_of, output_tokens=tokens, price_source="list", price_date="2026-11-01")
        )

    candidate = (window(2.0, 1_000_000), window(4.0, 1_000_000))
    (drawn,) = cost.draw({}, Sides(candidate, (window(2.0, 1_000_000),)))
    words = Page(drawn).words
    assert "active: 2 USD" in words
    assert "candidate: 3 USD" in words
    assert "list 2026-11-01" in words
    assert list(cost.draw({}, Sides((window(None, 5),), (window(1.0, 5), window(1.0, 5, "EUR"))))) == []


def test_only_what_is_drawn_is_in_the_legend(folder, decided):
    """Too few requests for an interval have no limit to draw."""
    few = folder.both()
    for side in ("baseline", "candidate"):
        few.benchmark(side, few.seconds(15))
    assert '<path class="limit" d="M-14,0' not in decided().report("html")
