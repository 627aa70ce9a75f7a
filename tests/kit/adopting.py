# SPDX-License-Identifier: Apache-2.0
"""Tables of Apache Hudi as one finds them, and lines of their properties that somebody has put in by hand."""

from __future__ import annotations

from pathlib import Path

import lakebraid as lb
from lakebraid.format.properties import format_properties, parse_properties
from tests.kit.reference import Reference, keep_times, unpack


def buckets(number: int) -> dict[str, str]:
    return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(number)}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def opened(name: str, folder: Path) -> tuple[Reference, lb.Table]:
    reference = unpack(name, folder)
    keep_times(reference.path)
    return reference, lb.Table.open(reference.path)


def state(path: Path, **lines: str | None) -> None:
    """Puts lines into hoodie.properties by hand, or takes them out."""
    file = path / ".hoodie" / "hoodie.properties"
    changed = parse_properties(file.read_bytes(), "here") | {k.replace("__", "."): v for k, v in lines.items()}
    file.write_bytes(format_properties({key: value for key, value in changed.items() if value is not None}))
