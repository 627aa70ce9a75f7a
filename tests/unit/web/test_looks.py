# SPDX-License-Identifier: Apache-2.0
"""The colours of the viewer, held against WCAG: text 4.5 to 1, shapes 3 to 1; and the small picture for notebooks."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from lakebraid.table.picture import Bar, draw_lanes
from tests.kit.models.viewing import told

pytestmark = pytest.mark.unit

CSS = files("lakebraid.web").joinpath("static", "page.css").read_text("utf-8")
KINDS = (
    "write",
    "compaction",
    "logcompaction",
    "clustering",
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "other",
    "late",
)


def _palettes() -> dict[str, dict[str, str]]:
    light = CSS.partition(":root {")[2].partition("}")[0]
    dark = CSS.partition(':root[data-theme="dark"] {')[2].partition("}")[0]
    by_system = CSS.partition(':root:not([data-theme="light"]) {')[2].partition("}")[0]
    found = {
        name: dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", text))
        for name, text in (("light", light), ("dark", dark))
    }
    assert dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", by_system)) == found["dark"], "the two dark themes differ"
    return found


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_every_ground(theme: str) -> None:
    palette = _palettes()[theme]
    pairs = [(text, ground) for text in ("text", "muted", "accent", "ok") for ground in ("bg", "panel", "band")]
    pairs += [("warn", "warn-bg"), ("warn", "panel"), ("rollback", "panel"), ("on", "write"), ("on", "compaction")]
    weak = {pair: round(c, 2) for pair in pairs if (c := _contrast(palette[pair[0]], palette[pair[1]])) < 4.5}
    assert weak == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_kind_stands_out_from_the_ground(theme: str) -> None:
    palette = _palettes()[theme]
    weak = {(k, g): c for k in KINDS for g in ("bg", "band", "panel") if (c := _contrast(palette[k], palette[g])) < 3}
    assert weak == {}


@pytest.mark.slow
def test_a_notebook_shows_lanes_bars_and_barriers_without_any_script() -> None:
    shown = told().table.timeline()._repr_html_()
    assert shown.startswith("<svg") and ">ingest-a</text>" in shown and shown.count('stroke-dasharray="4 3"') == 3
    assert "<script" not in shown and len(shown.partition("</svg>")[0]) < 20_000


def test_names_in_a_notebook_s_picture_stay_text() -> None:
    drawn = draw_lanes([Bar("<script>x</script>", "commit", "1", "2", '"><img src=x>')])
    assert "<script" not in drawn and "<img" not in drawn


def test_overlapping_bars_of_one_lane_do_not_cover_each_other() -> None:
    drawn = draw_lanes(
        [Bar("w", "commit", "1", "3", "a"), Bar("w", "commit", "2", "4", "b"), Bar("w", "commit", "5", None, "c")]
    )
    assert re.findall(r'<rect x="[\d.]+" y="(\d+)"', drawn) == ["4", "22", "4"]
