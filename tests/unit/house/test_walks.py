# SPDX-License-Identifier: Apache-2.0
"""The pages "Follow one upsert" and "Follow one read" are true: the code of the page calls their steps, in their order."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from lakebraid.tasks.reading import blocks
from lakebraid.tasks.reading.cache import KeptBlocks
from tests.kit.documents import DOCS, ROOT
from tests.kit.documents import blocks as code_of

pytestmark = pytest.mark.unit

SOURCES = ROOT / "src" / "lakebraid"
PAGES = [DOCS / "concepts" / name for name in ("follow-one-upsert.md", "follow-one-read.md")]
STEP = re.compile(
    r"^\| (?P<number>\d+) \| \[`(?P<file>[\w/.]+)`\]\((?P<link>[^)]+)\) \| `(?P<name>[\w.]+)` \| (?P<what>.+) \|$",
    re.MULTILINE,
)


class Step(NamedTuple):
    file: str
    name: str


def steps(page: Path) -> list[Step]:
    return [Step(step["file"], step["name"]) for step in STEP.finditer(page.read_text("utf-8"))]


def called(act: Callable[[], object]) -> list[Step]:
    """The functions of the product in the order of their first calls, those of other threads included."""
    seen: dict[Step, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCES)):
            seen.setdefault(Step(Path(path).relative_to(SOURCES).as_posix(), frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_last_line_of_the_page_calls_its_steps_in_their_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "KEPT", KeptBlocks(0))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # slices one after the other: of two, either may be the first
    (block,) = code_of(page)
    *before, last = block.code.strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    order = called(lambda: exec(last, names))
    assert [step for step in steps(page) if step not in order] == []
    assert [order.index(step) for step in steps(page)] == sorted(order.index(step) for step in steps(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_steps_are_numbered_and_each_link_leads_to_the_file_that_it_names(page: Path) -> None:
    text = page.read_text("utf-8")
    found = list(STEP.finditer(text))
    assert [int(step["number"]) for step in found] == list(
        range(1, len(re.findall(r"^\| \d+ \|", text, re.MULTILINE)) + 1)
    )
    links = re.findall(r"\[`([\w/.]+)`\]\(([^)]+)\)", text)
    assert len(links) > len(found) > 15
    assert [
        file
        for file, link in links
        if (page.parent / link).resolve() != SOURCES / file or not (SOURCES / file).exists()
    ] == []
