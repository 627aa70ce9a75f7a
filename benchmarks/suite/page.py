# SPDX-License-Identifier: Apache-2.0
"""The page of the results: between two markers stands what a run found, around them what people wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.suite.row import Row, Rows


def updated(page: str, name: str, block: str) -> str:
    """The page with the block between the markers of that measurement.

    >>> print(updated("a\\n<!-- x -->\\nold\\n<!-- /x -->\\nb", "x", "new"))
    a
    <!-- x -->
    new
    <!-- /x -->
    b
    """
    first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
    changed, times = re.subn(
        f"{re.escape(first)}.*?{re.escape(last)}", lambda _: f"{first}\n{block}\n{last}", page, flags=re.DOTALL
    )
    if times != 1:
        raise SystemExit(f"The page has {times} places for {name}: it needs {first} and {last}, once.")
    return changed


def block(picture: str, alt: str, columns: Mapping[str, str], result: Mapping[str, Any]) -> str:
    """The picture, the table and where the figures come from, as Markdown."""
    return f"![{alt}]({picture})\n\n{_table(columns, result['rows'])}\n\n{_provenance(result['facts'])}"


def _table(columns: Mapping[str, str], rows: Rows) -> str:
    lines = [f"| {' | '.join(columns.values())} |", "|" + "---|" * len(columns)]
    return "\n".join(lines + [f"| {' | '.join(_cell(row, key) for key in columns)} |" for row in rows])


def _cell(row: Row, key: str) -> str:
    """Three digits that mean something, thousands apart; nothing where nothing was measured.

    >>> [_cell({"a": value}, "a") for value in ("x", 100_000, 1234.5, 12.34, 0.01234, 0.0)]
    ['x', '100,000', '1,234', '12.3', '0.0123', '0']
    """
    value = row.get(key, "")
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def _provenance(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {facts[name]}" for name in ("lakebraid", "python", "pyarrow"))
    size = "small (`--quick`)" if facts["quick"] else "full"
    load = f"load {facts['load before']} before"
    if (others := facts.get("cores used by others")) is not None:
        load += f", other work took {others:.1f} of the {facts['cores']} cores during it"
    machine = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory']}, {facts['system']}"
    return f"*{facts['date']}, {size} sizes, {facts['seconds']:.0f} s; {machine}; {load}; {versions}.*"
