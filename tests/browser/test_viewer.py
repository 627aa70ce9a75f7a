# SPDX-License-Identifier: Apache-2.0
"""The viewer in a real browser: what is clicked, what is typed, what is drawn, and what must never run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lakebraid.web.page import render_page
from lakebraid.web.picture import build_model
from lakebraid.web.server import make_server
from tests.browser.conftest import Show
from tests.kit.models.viewing import long_facts, model_of, told
from tests.kit.tables.storyboard import Story

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LATE = "20260302120058001"
HOSTILE = "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>{{script}}\u2028\u202e"


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    return model_of(told())


def test_a_click_on_a_bar_shows_its_rows_files_and_neighbours(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model)
    shown.page.mouse.click(*shown.place(LATE))
    side = shown.side()
    assert "2026-03-02 12:00:58.001" in side and "slow-join" in side and "20" in side
    assert "Finished late" in side and "12:01:06.001" in side
    assert "AT THE SAME TIME ON THE SAME FILE GROUPS (3)" in side
    assert f"_{LATE}.log.1_" in side
    shown.page.click("#side .callout .link")
    assert "compaction" in shown.side() and "PLAN (8 FILE GROUPS)" in shown.side()
    assert shown.complaints == []


def test_the_keyboard_alone_reaches_every_view_and_instant(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model)
    shown.page.focus("#canvas")
    shown.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert "12:00:06.001" in shown.side() and "ingest-a" in shown.page.inner_text("#spoken")
    shown.press("ArrowDown")
    assert "ingest-b" in shown.side()
    shown.press("Enter")
    assert shown.page.evaluate("document.activeElement.closest('aside') !== null")
    shown.press("Escape")
    assert shown.side().startswith("Now")
    shown.press("/", *"doomed")  # it died, and has its name nonetheless
    assert shown.page.inner_text("#found") == "1 of 52"
    shown.press("Escape", "/", *"nobody")
    assert shown.page.inner_text("#found") == "0 of 52"
    shown.press("Escape", "/", *"slow", "Enter", "Enter")
    assert "12:03:58.001" in shown.side()
    shown.press("Escape", "2")
    assert shown.page.is_visible("#slices") and not shown.page.is_visible("#canvas")
    shown.press("3")
    assert shown.page.locator("#list .line").count() > 20
    shown.press("1")
    assert shown.complaints == []


def test_a_bar_goes_from_the_start_of_its_instant_to_its_completion(model: dict[str, Any], screen: Show) -> None:
    places = screen(model).page.evaluate("window.lakebraidDrawn.places")
    times = {
        i["start"]: (i["t0"], i["t1"])
        for i in model["instants"]
        if i["state"] == "completed" and i["kind"] == "deltacommit"
    }
    del times[
        next(i["start"] for i in model["instants"] if i["kind"] == "savepoint")
    ]  # a write has the same request time
    bars = [
        (x, end, *times[request_time]) for request_time, x, end, _ in places if request_time in times and end - x > 4
    ]
    assert len(bars) > 30
    low, high = min(bars, key=lambda bar: bar[2]), max(bars, key=lambda bar: bar[3])
    per_ms = (high[1] - low[0]) / (high[3] - low[2])
    wrong = [
        bar
        for bar in bars
        if abs(low[0] + (bar[2] - low[2]) * per_ms - bar[0]) > 1
        or abs((bar[3] - bar[2]) * per_ms - bar[1] + bar[0]) > 1
    ]
    assert wrong == []


def test_zooming_panning_and_even_spacing_move_the_picture(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model)
    x, y = shown.place(LATE)
    shown.page.mouse.move(x, y)
    shown.press("+")
    assert shown.place(LATE) != (x, y)
    shown.press("0")
    assert shown.place(LATE) == (x, y)
    shown.page.mouse.move(x + 60, 700)
    shown.page.mouse.down()
    shown.page.mouse.move(x - 40, 700, steps=4)
    shown.page.mouse.up()
    assert shown.place(LATE)[0] == pytest.approx(x - 100, abs=12)
    shown.press("o")
    assert shown.page.get_attribute("#axis", "aria-pressed") == "true"
    assert shown.complaints == []


def test_the_slice_map_frames_what_finished_late_and_leads_to_its_writer(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model)
    shown.press("2")
    late = shown.page.locator(".stack.now .file.late")
    assert late.count() == 8 and set(late.all_inner_texts()) == {"slow-join"}
    late.first.click()
    assert "Finished late" in shown.side()
    assert shown.page.locator(".group").count() == 8


def test_what_is_going_on_names_open_writes_plans_and_what_to_run(model: dict[str, Any], screen: Show) -> None:
    side = screen(model).side()
    assert "OPEN WRITES (1)" in side and "heartbeat" in side
    assert "PLANS (1)" in side and "waits" in side and "8 file groups" in side
    assert "lakebraid archive" in side


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_can_be_switched(model: dict[str, Any], screen: Show, scheme: str) -> None:
    shown = screen(model, color_scheme=scheme)

    def ground() -> int:
        return sum(
            json.loads(
                shown.page.evaluate(
                    "JSON.stringify(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))"
                )
            )
        )

    before = ground()
    assert (before < 150) == (scheme == "dark")
    pixel = "(() => { const c = document.getElementById('canvas'); return Array.from(c.getContext('2d').getImageData(c.width - 4, c.height - 4, 1, 1).data).slice(0, 3).reduce((a, b) => a + b) })()"
    assert (shown.page.evaluate(pixel) < 150) == (scheme == "dark")
    shown.page.click("#theme")
    shown.drawn()
    assert (ground() < 150) == (scheme == "light")
    assert (shown.page.evaluate(pixel) < 150) == (scheme == "light")


def test_a_narrow_window_keeps_everything_on_the_screen(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model, viewport={"width": 380, "height": 740})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 380
    assert shown.page.is_visible("#side") and shown.page.is_visible("#canvas")
    shown.page.mouse.click(*shown.place(LATE))
    assert "Finished late" in shown.side()


YARDSTICK = """(() => {
  const started = performance.now();
  let text = "";
  for (let n = 0; n < 3e5; n++) text = JSON.stringify({ n, before: text.length });
  return performance.now() - started;
})()"""
YARDSTICK_MS = 50
"""What that takes on the machine on which the bounds below were chosen."""


def test_five_thousand_instants_are_drawn_within_two_seconds(screen: Show) -> None:
    """Seconds of a machine that has nothing else to do: on another one, or a busy one, a yardstick takes longer, too."""
    model = build_model(long_facts(5000))
    assert len(render_page(model).encode()) < 3_000_000
    shown = screen(model)
    # The best of some tries: what is measured is the page, not what else this machine does.
    firsts, frames = [], []
    for _ in range(5):
        slowness = max(1, shown.page.evaluate(YARDSTICK) / YARDSTICK_MS)
        firsts.append(shown.page.evaluate("window.lakebraidDrawn.at") / slowness)
        shown.press("0").drawn()
        frames.append(shown.page.evaluate("window.lakebraidDrawn.ms") / slowness)
        if firsts[-1] < 2000 and frames[-1] < 200:
            break
        shown.open(shown.page.url)
    assert min(firsts) < 2000, "milliseconds from opening the file to the first picture"
    assert min(frames) < 200, "milliseconds for a frame with everything in view"
    shown.press("3")
    assert shown.page.locator("#list .line").count() < 100, "only the visible part of the list exists"
    assert shown.complaints == []


def test_names_that_are_script_stay_text(screen: Show) -> None:
    story = Story(partition_by="city")
    story.at(0, lambda: story.begin(HOSTILE, cities=("<img src=x onerror=window.ran=1>",)).commit())
    model = _hostile(model_of(story.play()))
    shown = screen(model)
    for key in ("ArrowRight", "ArrowRight", "2", "3", "1", "Escape"):
        shown.press(key)
        shown.drawn()
    shown.page.mouse.move(*shown.place(model["instants"][1]["start"]))
    assert shown.page.evaluate("window.ran") is None
    assert shown.page.locator("img").count() == 0
    assert "<img src=x" in shown.page.inner_text("h1")
    assert shown.complaints == []


def _hostile(value: Any, key: str = "") -> Any:
    """Every name and note in the model becomes an attack; times, kinds and numbers stay."""
    if isinstance(value, dict):
        return {k: _hostile(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_hostile(v, key) for v in value]
    names = {
        "name",
        "path",
        "record_keys",
        "partition_fields",
        "note",
        "problem",
        "problems",
        "operation",
        "groups",
        "command",
        "reason",
    }
    return HOSTILE if isinstance(value, str) and key in names else value


def test_a_script_that_got_into_the_page_would_still_not_run(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model)
    shown.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.ran=1>')")
    shown.page.evaluate(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.ran=1'; document.body.append(s) })()"
    )
    # Both are refused, and said so, before anything of theirs could have run.
    shown.complain("Content Security Policy", times=2)
    assert shown.page.evaluate("window.ran") is None


def test_the_file_fetches_nothing(model: dict[str, Any], screen: Show) -> None:
    shown = screen(model)
    shown.press("ArrowRight", "2", "3", "1")
    assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []


@pytest.fixture
def served() -> Iterator[tuple[Story, str]]:
    story = Story()
    story.write(0, 3, "first")
    story.play()
    with make_server(story.storage, story.clock) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield story, f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_a_live_page_shows_a_commit_soon_after_it_was_made(served: tuple[Story, str], screen: Show) -> None:
    story, url = served
    shown = screen(url)
    assert shown.page.inner_text("#live") == "live"
    before = len(shown.page.evaluate("window.lakebraidDrawn.places"))
    story.write(20, 5, "second")
    story.play()
    shown.until(f"window.lakebraidDrawn.places.length > {before}")
    shown.press("/", *"second")
    assert shown.page.inner_text("#found").startswith("1 of")
    assert {u.removeprefix(url) for u in shown.requests if u.startswith("http")} == {"", "model.json"}
    assert shown.complaints == []
