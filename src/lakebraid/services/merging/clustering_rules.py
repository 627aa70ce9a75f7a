# SPDX-License-Identifier: Apache-2.0
"""Which tables may be clustered: those whose rows may lie in any file group; and when they are due."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.writable import check_rewritable, check_tended
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.table.view import View
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.writer import Writing

INLINE: Final = "hoodie.clustering.inline"
ASYNC: Final = "hoodie.clustering.async.enabled"
_COMMITS: Final = "hoodie.clustering.inline.max.commits"
_ASYNC_COMMITS: Final = "hoodie.clustering.async.max.commits"


def load_clusterable(writing: Writing) -> tuple[TableConfig, Mapping[str, str]]:
    """The table's settings as they are now; UnsupportedTable if its files cannot be written anew."""
    config, properties = load_config(writing.storage)
    completed = writing.completions(config) if config.timezone != "UTC" else None
    check_tended(config, properties, writing.storage.url, completed=completed)
    check_rewritable(config, properties, writing.storage.url)
    return config, properties


def check_unbucketed(config: TableConfig, storage: Storage) -> None:
    """InvalidArgument for a table with a bucket index: the place of a row there follows from its key."""
    if config.index == "bucket" or config.buckets is not None or storage.list_folder(".hoodie/.bucket_index")[1]:
        raise _bucketed(storage)


def check_no_bucket_ids(view: View, storage: Storage) -> None:
    """The same for a table that does not state its index: its file ids tell."""
    ids = {group.file_id for group in view.groups}
    if not view.config.index and ids and all(bucket_of_file_id(file_id) is not None for file_id in ids):
        raise _bucketed(storage)


def is_clustering_due(ledger: Ledger, properties: Mapping[str, str]) -> bool:
    """Whether the table wants to be clustered by whoever serves it, and has had enough writes since the last time."""
    if not any(properties.get(name, "").strip().lower() == "true" for name in (INLINE, ASYNC)):
        return False
    text = (properties.get(_COMMITS) or properties.get(_ASYNC_COMMITS) or "4").strip()
    if re.fullmatch("[0-9]{1,9}", text) is None:
        raise InvalidArgument(f"The table's {_COMMITS} is {text[:40]!r}; it must be a number. Nothing was changed.")
    writes = load_timeline(ledger.storage, ledger.config).writes
    return sum(1 for _ in takewhile(lambda i: i.kind != "clustering", reversed(writes))) >= int(text)


def _bucketed(storage: Storage) -> InvalidArgument:
    return InvalidArgument(
        f"{storage.url} has a bucket index: the file group of a row follows from its key, so rows cannot be moved to other "
        "groups. Nothing was changed. `table.compact(sort_by=[…])` sorts the rows within each bucket instead.",
        path=storage.url,
    )
