# SPDX-License-Identifier: Apache-2.0
"""For mkdocs: links from a page into the repository (a test, a script) lead to a copy of that file on the site."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")
_copied: set[Path] = set()


def on_config(config: Any) -> Any:
    """The navigation, with all decisions, and with pages of the first level that it does not name under Reference."""
    docs = Path(config.docs_dir)
    named = str(config.nav)
    for section in config.nav:
        if "Decisions" in section:
            section["Decisions"] = [str(p.relative_to(docs)) for p in sorted(docs.glob("decisions/*.md"))]
        if "Reference" in section:
            section["Reference"] += [p.name for p in sorted(docs.glob("*.md")) if p.name not in named]
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The page, with links out of `docs` turned to where the files will be. A link to nothing fails the build."""
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def turned(found: re.Match[str]) -> str:
        words, target = found.group(1), (folder / found.group(2)).resolve()
        if target.is_relative_to(docs):
            return found.group(0)
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {found.group(2)}, which is not there")
        if target.is_dir():
            return words
        _copied.add(target.relative_to(docs.parent))
        place = f"source/{target.relative_to(docs.parent)}.txt"
        shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", words)
        return f'<a href="{os.path.relpath(place, Path(page.file.dest_uri).parent)}">{shown}</a>'

    return _LINK.sub(turned, markdown)


def on_post_build(*, config: Any, **_: Any) -> None:
    """Puts the copies there."""
    for path in _copied:
        place = Path(config.site_dir) / "source" / f"{path}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(config.docs_dir).parent / path, place)
