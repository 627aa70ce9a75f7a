# SPDX-License-Identifier: Apache-2.0
"""Comments, tests and documents cite docs/spec by trap, section, hole, rule, scenario and invariant: each citation leads somewhere."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from simulator import checkers
from simulator.mutants import MUTANTS
from tests.kit.documents import DOCS, ROOT
from tests.kit.present import present

pytestmark = pytest.mark.unit

SPEC = DOCS / "spec"
CITING = ("src", "tests", "simulator", "benchmarks", "examples", "docs")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
NUMBERS = r"(\d+[a-f]?(?:(?:, | and | to )\d+)*)"
FORMS = (
    (re.compile(rf"\bFORMAT, sections? {NUMBERS}(?:, point (\d+))?"), "format.md", "section-"),
    (re.compile(rf"\b[Tt]raps? {NUMBERS}"), "format.md", "trap-"),
    (re.compile(rf"\bMDT, sections? {NUMBERS}"), "metadata-table.md", "section-"),
    (re.compile(r"\bMDT, M(\d{1,2})\b"), "metadata-table.md", "M"),
    (re.compile(r"\bMDT, T(\d{1,2})\b"), "metadata-table.md", "T"),
    (re.compile(rf"\bLEDGER, rules? {NUMBERS}"), "ledger.md", "rule-"),
    (re.compile(r"\bH(\d{1,2})\b"), "ledger.md", "H"),
    (re.compile(r"\bG(\d{1,2})\b"), "ledger.md", "G"),
    (re.compile(r"\bLEDGER, P(\d{1,2})\b"), "ledger.md", "P"),
    (re.compile(r"\bF(\d{1,2}(?: to F\d{1,2})?)\b"), "scenarios.md", "F"),
    (re.compile(r"\btest_[fF](\d{1,2})_"), "scenarios.md", "F"),
    (re.compile(rf"\b[Ii]nvariants? {NUMBERS}"), "simulation.md", "invariant-"),
)
"""What a citation looks like, the page that it is of, and how the anchors of that page begin."""
UNRESOLVED = re.compile(
    r"\b(?:FORMAT|LEDGER|SIMULATION|SCENARIOS|MDT)(?:\.md\b|,? (?!(?<=, )(?:sections?|traps?|rules?) \d)\w+ \d+)"
    r"|\b[Ss]cenarios? (?!F)[A-Z]?\d"
)
"""What looks like a citation and is in none of these forms."""


@cache
def anchors(page: str) -> frozenset[str]:
    return frozenset(ANCHOR.findall((SPEC / page).read_text("utf-8")))


def cited(text: str) -> Iterator[tuple[str, str, str]]:
    """The words of each citation, the page and the anchor that it wants."""
    joined = re.sub(r"\s*\n\s*(?:#(?!#) ?)?", " ", text)
    for form, page, prefix in FORMS:
        for found in form.finditer(joined):
            point = f"-point-{found[2]}" if form.groups > 1 and found[2] else ""
            for number in _numbers(found[1].replace("F", "")):
                yield found[0], page, f"{prefix}{number}{point}"


def _numbers(listed: str) -> Iterator[str]:
    for part in re.split(r", | and ", listed):
        first, _, last = part.partition(" to ")
        yield from map(str, range(int(first), int(last) + 1)) if last else [first]


def broken(text: str) -> list[str]:
    """Citations in the text that lead nowhere, or are in no known form."""
    nowhere = [words for words, page, anchor in cited(text) if anchor not in anchors(page)]
    return nowhere + [found[0] for found in UNRESOLVED.finditer(text)]


def texts() -> Iterator[tuple[Path, str]]:
    for folder in CITING:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and path != Path(__file__):
                yield path, path.read_text("utf-8")
    for path in sorted(ROOT.glob("*.md")):
        yield path, path.read_text("utf-8")


def test_every_citation_leads_to_an_anchor_of_the_specification() -> None:
    assert {str(path.relative_to(ROOT)): found for path, text in texts() if (found := broken(text))} == {}


def test_citations_of_every_form_are_found() -> None:
    pages = Counter(
        (page, present(re.match(r"[a-zA-Z]+", anchor))[0]) for _, text in texts() for _, page, anchor in cited(text)
    )
    assert set(pages) == {
        ("format.md", "section"), ("format.md", "trap"), ("ledger.md", "rule"), ("ledger.md", "H"), ("ledger.md", "G"),
        ("ledger.md", "P"),
        ("scenarios.md", "F"), ("simulation.md", "invariant"),
        ("metadata-table.md", "section"), ("metadata-table.md", "M"), ("metadata-table.md", "T"),
    }  # fmt: skip
    assert pages.total() > 200


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (f"(FORMAT, trap {33})", []),
        (f"(FORMAT, trap {99})", ["trap 99"]),
        (f"(FORMAT, traps {3}, {27})", []),
        (f"(FORMAT, traps {3}, {72})", ["traps 3, 72"]),
        (f"FORMAT, section {17}, point {1}", []),
        (f"FORMAT, section {17}, point {9}", ["FORMAT, section 17, point 9"]),
        (f"FORMAT, section {13}e", []),
        (f"FORMAT, section {13}\n    # and more", []),
        (f"FORMAT,\n    # section {44}", ["FORMAT, section 44"]),
        (f"FORMAT, sections {20} to {23}", [f"FORMAT, sections {20} to {23}"]),
        (f"LEDGER, H{10}", ["H10"]),
        (f"LEDGER, rule {12}", ["LEDGER, rule 12"]),
        (f"scenario F{24}", []),
        (f"F{33} to F{35}", ["F33 to F35"]),
        (f"def test_f{40}_a_thing()", ["test_f40_"]),
        (f"invariant {26}", ["invariant 26"]),
        (f"LEDGER, G{11}", ["G11"]),
        (f"LEDGER, P{11}", ["LEDGER, P11"]),
        (f"MDT, section {3}, and MDT, M{5}, and MDT, T{1}", []),
        (f"MDT, section {11}", ["MDT, section 11"]),
        (f"(MDT, M{12})", ["MDT, M12"]),
        (f"(MDT, T{2})", ["MDT, T2"]),
        ("as MDT.md says", ["MDT.md"]),
        ("as FORMAT.md says", ["FORMAT.md"]),
        (f"FORMAT, chapter {3}", ["FORMAT, chapter 3"]),
        (f"FORMAT section {10}", ["FORMAT section 10"]),
        (f"scenario X{3}", ["scenario X3"]),
    ],
)
def test_a_citation_that_leads_nowhere_is_reported(words: str, reported: list[str]) -> None:
    assert broken(words) == reported


@pytest.mark.parametrize("page", sorted(SPEC.glob("*.md")), ids=lambda page: page.name)
def test_anchors_are_unique(page: Path) -> None:
    found = Counter(ANCHOR.findall(page.read_text("utf-8")))
    assert found
    assert [anchor for anchor, count in found.items() if count > 1] == []


def test_links_to_anchors_of_the_specification_lead_somewhere() -> None:
    links = [
        (path, target or path.name, anchor)
        for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"))
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text("utf-8"))
        if (path.parent / (target or path.name)).resolve().parent == SPEC
    ]
    assert len(links) > 50
    wrong = [
        f"{path.name}: {target}#{anchor}"
        for path, target, anchor in links
        if anchor not in anchors(Path(target).name) | _headings(Path(target).name)
    ]
    assert wrong == []


@cache
def _headings(page: str) -> frozenset[str]:
    """The ids that headings get by themselves."""
    titles = re.findall(r"^## (.+)$", (SPEC / page).read_text("utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w]+", "-", title.lower()).strip("-") for title in titles)


def test_every_scenario_names_a_test_that_exists() -> None:
    rows = re.findall(r'^\| <a id="(F\d+)"></a>.*\|(.*)\|$', (SPEC / "scenarios.md").read_text("utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == [f"F{number}" for number in range(1, 35)]
    for name, held in rows:
        tests = re.findall(r"\[`(\w+)`\]\(([^)]+)\)", held)
        assert tests, name
        missing = [test for test, path in tests if f"def {test}(" not in (SPEC / path).read_text("utf-8")]
        assert missing == [], name


def test_the_page_of_the_simulator_has_the_invariants_that_are_checked_and_no_others() -> None:
    modules = {Path(checkers.__file__).parent / f"{kind.__module__.rpartition('.')[2]}.py" for kind in checkers.ALL}
    documented = {present(ast.get_docstring(ast.parse(path.read_text("utf-8")))).partition(".")[0] for path in modules}
    raised = {
        number
        for path in (ROOT / "simulator").rglob("*.py")
        for number in re.findall(r'"(\d+) [a-z][^"]*"', path.read_text("utf-8"))
    }
    caught = {number for mutant in MUTANTS for number in mutant.caught_by if number.isdigit()}
    on_the_page = {anchor.removeprefix("invariant-") for anchor in anchors("simulation.md")}
    elsewhere = {"10", "12"}  # judged in small worlds: tests/simulator/test_optimistic_worlds.py
    assert documented | raised | caught | elsewhere == on_the_page
