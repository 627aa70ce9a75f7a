# SPDX-License-Identifier: Apache-2.0
"""Adopting a table: it is looked at, and the lines that are proven and missing are put into its properties."""

from __future__ import annotations

from dataclasses import replace

from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.services.adoption.judge import Evidence, judge
from lakebraid.services.adoption.result import Adoption
from lakebraid.services.adoption.sample import look_at_keys
from lakebraid.table.loading import load_config
from lakebraid.table.view import load_view
from lakebraid.txn.actions.properties import change_properties, undo_properties
from lakebraid.txn.writer import Writing


def adopt(
    writing: Writing, *, dry_run: bool = False, undo: bool = False, deep: bool = False, buckets: int | None = None
) -> Adoption:
    """States what the table's files prove, so that it may be written; or sets that back, or only looks.

    UnsupportedTable, and nothing is changed, if something is in the way; its `adoption` tells all of it.
    """
    if undo and (dry_run or buckets is not None):
        raise InvalidArgument("adopt(undo=True) goes with neither dry_run nor buckets. Nothing was changed.")
    undone = undo_properties(writing.storage) if undo else None
    evidence = _evidence(writing, deep=deep)
    found = judge(evidence, buckets)
    if undone is not None:
        return replace(found, undone=undone.lines, left=undone.left)
    if dry_run:
        return found
    if not found.is_possible:
        reasons = " ".join(f"({number}) {aspect.why}" for number, aspect in enumerate(found.obstacles, 1))
        raise UnsupportedTable(
            f"Cannot adopt {found.path}. Nothing was changed. {reasons}", path=found.path, adoption=found
        )
    if not found.lines:
        return found
    change_properties(writing.storage, evidence.properties, found.lines)
    return replace(found, is_done=True)


def _evidence(writing: Writing, *, deep: bool) -> Evidence:
    storage = writing.storage
    config, properties = load_config(storage)
    view = load_view(writing.at(config))
    return Evidence(
        storage.url,
        config,
        properties,
        tuple(view.groups),
        look_at_keys(storage, view, deep=deep),
        view.schema,
        writing.completions(config) if config.timezone == "LOCAL" else None,
        tuple(storage.list_folder(".hoodie/.bucket_index")[1]),
    )
