# SPDX-License-Identifier: Apache-2.0
"""Names, messages and pages keep to the rules of style of docs/spec/vocabulary.md: sentences name their subject."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.documents import DOCS, ROOT

pytestmark = pytest.mark.unit

RIDDLES = re.compile(
    r"(?<!~)\b(?:whoever|nobody|somebody|everybody|anybody|meanwhile)\b|\bt(?:ake|akes|aken|aking|ook)(?: it| them)? back\b",
    re.IGNORECASE,
)
"""Subjects that are no subjects, a time that is no time, and what may be a rollback, a withdrawal or a restore."""
QUOTING = {DOCS / "spec" / "vocabulary.md"}
"""It says which words not to use."""


def texts() -> list[Path]:
    """The product's sources and the pages for users. Decisions are not edited afterwards."""
    sources = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".py", ".js", ".css", ".html")]
    pages = [p for p in DOCS.rglob("*.md") if "decisions" not in p.parts]
    return [*sources, *pages, *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md"]


def riddles(text: str) -> list[str]:
    return [f"line {text[: found.start()].count(chr(10)) + 1}: {found[0]}" for found in RIDDLES.finditer(text)]


def test_sentences_of_the_product_and_its_pages_name_their_subject() -> None:
    paths = texts()
    assert len(paths) > 350
    found = {str(p.relative_to(ROOT)): riddles(p.read_text("utf-8")) for p in paths if p not in QUOTING}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Whoever comes next rolls it back.", 1),
        ("a file\nthat nobody sees meanwhile", 2),
        ("it was taken back", 1),
        ("the '~nobody' of a path", 0),
        ("The executor rolls it back.", 0),
    ],
)
def test_a_sentence_without_a_subject_is_found(text: str, count: int) -> None:
    assert len(riddles(text)) == count
