# SPDX-License-Identifier: Apache-2.0
"""What a rolled-back instant takes with it out of the metadata table, before its files on the table's own timeline go (LEDGER, P7).

An instant of ours that can be rolled back has nothing there: it is told of by the entry that publishes it. A job of Hudi may
die between the two.
"""

from __future__ import annotations

from lakebraid.errors import UnsupportedTable
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.names import parse_data_file, parse_timeline_file
from lakebraid.table.at import TableAt
from lakebraid.table.metadata.layout import load_metadata_timeline


def check_not_compacted(table: TableAt, victim: str) -> None:
    """Raises UnsupportedTable if a compaction of the metadata table has taken in what the instant says there."""
    if not table.config.metadata_partitions:
        return
    timeline = load_metadata_timeline(table.storage)
    instant = timeline.write(victim)
    completion = None if instant is None else instant.completion_time
    taker = next(
        (i for i in timeline.writes if i.action == "commit" and completion and i.request_time >= completion), None
    )
    if taker is not None:
        raise UnsupportedTable(
            f"The write {victim} of {table.storage.url} cannot be rolled back: the compaction {taker.request_time} of its metadata table "
            "has taken in what it says there. Nothing was changed, and no reader sees the write. Remove the metadata table with "
            "Apache Hudi (hoodie.metadata.enable=false), then try again.",
            path=table.storage.url,
            instant=victim,
        )


def remove_metadata(table: TableAt, victim: str) -> None:
    """Removes the instant from the metadata table: what completes it there, its logs, then its pending files.

    No name of it is made again once its staged objects are swept, so any process may do this at any time.
    """
    if not table.config.metadata_partitions:
        return
    storage = table.storage
    parsed = ((name, parse_timeline_file(name)) for name in storage.list_names(TIMELINE))
    own = [(name, p) for name, p in parsed if p is not None and p.request_time == victim]
    storage.delete([f"{TIMELINE}/{name}" for name, p in own if p.completion_time is not None])
    for partition in table.config.metadata_partitions:
        files = ((name, parse_data_file(name)) for name in storage.list_names(f"{FOLDER}/{partition}"))
        storage.delete([f"{FOLDER}/{partition}/{n}" for n, p in files if p is not None and p.request_time == victim])
    storage.delete([f"{TIMELINE}/{name}" for name, p in own if p.completion_time is None])
