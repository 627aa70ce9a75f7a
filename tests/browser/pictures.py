# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the documentation with the viewer: `uv run python -m tests.browser.pictures`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from lakebraid.web.page import render_page
from tests.kit.models.viewing import model_of
from tests.kit.tables import storyboard

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
STORIES = {
    "braided": (storyboard.braided, 1280, 720, ()),
    "rfc66": (storyboard.late_finisher, 1080, 420, ("/", "s", "l", "o", "w", "Enter", "Escape")),
    "rfc71": (storyboard.optimistic, 1080, 430, ("/", "r", "e", "f", "u", "s", "e", "d", "Enter", "Escape")),
    "rfc79": (storyboard.left_plans, 1080, 470, ("o", "0")),
    "rfc82": (storyboard.schemas, 1080, 430, ("/", "r", "e", "f", "u", "s", "e", "d", "Enter", "Escape")),
}


def draw(browser: Browser, name: str) -> Path:
    """One picture, about as a reader of the documentation would see it."""
    story, width, height, keys = STORIES[name]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(render_page(model_of(story())), "utf-8")
        page.goto(file.as_uri())
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(200)
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=FOLDER / f"{name}.png")
    page.close()
    return FOLDER / f"{name}.png"


if __name__ == "__main__":
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for each in STORIES:
            made = draw(opened, each)
            print(made.name, made.stat().st_size)
