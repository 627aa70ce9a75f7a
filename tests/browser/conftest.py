# SPDX-License-Identifier: Apache-2.0
"""One Chromium for all tests of the viewer: the machine's own, or the one that Playwright brings."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from lakebraid.web.page import render_page
from tests.kit.waiting import PATIENCE_SECONDS

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


class Screen:
    """A page of the viewer, and everything that went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self.requests.append(request.url))

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, url: str) -> Screen:
        self.page.goto(url)
        return self.until("window.lakebraidDrawn !== undefined")

    def until(self, expression: str) -> Screen:
        """Waits for it; by looking from outside, since the page lets nobody evaluate text inside."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"{PATIENCE_SECONDS} seconds, and still not {expression}"
            self.page.wait_for_timeout(50)
        return self

    def drawn(self) -> Screen:
        """After the frame in which the last change is drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self

    def complain(self, text: str, times: int) -> Screen:
        """Waits until the page has complained of that so often."""
        end = time.monotonic() + PATIENCE_SECONDS
        while sum(text in complaint for complaint in self.complaints) < times:
            assert time.monotonic() < end, self.complaints
            self.page.wait_for_timeout(20)
        return self

    def press(self, *keys: str) -> Screen:
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def side(self) -> str:
        return self.page.inner_text("#side")

    def place(self, request_time: str) -> tuple[float, float]:
        """Where on the page the bar of that instant is."""
        self.drawn()
        box = self.page.locator("#canvas").bounding_box()
        assert box is not None
        x, end, y = next(
            place[1:] for place in self.page.evaluate("window.lakebraidDrawn.places") if place[0] == request_time
        )
        return box["x"] + (x + end) / 2, box["y"] + y


Show = Callable[..., Screen]


@pytest.fixture
def screen(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page on a model: `screen(model, color_scheme="dark", viewport=…)`."""
    opened: list[Page] = []

    def show(model: dict[str, Any] | str, **how: Any) -> Screen:
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **how})
        opened.append(page)
        if isinstance(model, str):
            return Screen(page).open(model)
        file = tmp_path / "timeline.html"
        file.write_text(render_page(model), "utf-8")
        return Screen(page).open(file.as_uri())

    yield show
    for page in opened:
        page.close()
