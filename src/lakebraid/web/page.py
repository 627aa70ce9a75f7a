# SPDX-License-Identifier: Apache-2.0
"""The page: one HTML file with everything in it. Nothing is fetched, and no text of a table can become script."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any, Final

_SCRIPTS: Final = ("1_model.js", "2_scale.js", "3_draw.js", "4_side.js", "5_views.js", "6_main.js")


def render_page(model: dict[str, Any], *, poll_ms: int = 0) -> str:
    """The page that draws this model; with `poll_ms` it asks its server for `model.json` again and again."""
    style, script = _static("page.css"), _script()
    parts = {
        "csp": html.escape(content_policy(poll_ms=poll_ms), quote=True),
        "title": html.escape(f"{model['table']['name']} · lakebraid"),
        "style": style,
        "model": embedded_json({"model": model, "poll_ms": poll_ms}),
        "script": script,
    }
    pieces = _static("page.html").split("{{")
    # Split once and filled piece by piece: what a table's name says is never searched for places to fill.
    return pieces[0] + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:]))


def embedded_json(value: Any) -> str:
    r"""JSON that is safe inside a script element: neither its end nor a comment can be spelled.

    >>> embedded_json({"name": "</script><!--"})
    '{"name":"\\u003c/script\\u003e\\u003c!--"}'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def content_policy(*, poll_ms: int = 0) -> str:
    """Only our own script and style run, known by their hashes; nothing is loaded from anywhere."""
    connect = "'self'" if poll_ms else "'none'"
    return (
        f"default-src 'none'; script-src {_hash(_script())}; style-src {_hash(_static('page.css'))}; "
        f"img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script() -> str:
    return '"use strict";(() => {\n' + "".join(_static(name) for name in _SCRIPTS) + "})();"


def _static(name: str) -> str:
    return files("lakebraid.web").joinpath("static", name).read_text("utf-8")
