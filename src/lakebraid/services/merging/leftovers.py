# SPDX-License-Identifier: Apache-2.0
"""What compaction, log compaction and clustering share: finding their plan, and clearing the way before they execute it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from lakebraid import limits
from lakebraid.errors import ClaimLost, CorruptFile, ObjectNotFound
from lakebraid.format.timeline.plans import CompactionPlan, parse_compaction_plan
from lakebraid.services.merging.run import Held
from lakebraid.services.merging.tasks import list_files
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.writer import TableSchema, Writing

Merging = Literal["compaction", "logcompaction", "clustering"]
_SPOKEN = {"compaction": "compaction", "logcompaction": "log compaction", "clustering": "clustering"}


def load_merging(ledger: Ledger, start: str, action: Merging) -> CompactionPlan:
    """The plan that begins at `start`."""
    return parse_compaction_plan(*read_plan(ledger, start, action))


def read_plan(ledger: Ledger, start: str, action: Merging) -> tuple[bytes, str]:
    """The bytes of a plan, and the name of their file; ClaimLost if it is not there."""
    name = f"{ledger.config.timeline_folder}/{start}.{action}.requested"
    try:
        return ledger.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name
    except ObjectNotFound as error:
        raise ClaimLost(
            f"There is no {_SPOKEN[action]} plan {start} in {ledger.storage.url}: it was taken back or archived. "
            "Nothing was changed. Plan a new one.",
            instant=start,
        ) from error


def prepare_run(
    writing: Writing, ledger: Ledger, partitions: Iterable[str], held: Held, action: Merging
) -> tuple[dict[str, int], TableSchema]:
    """The sizes of the files in the plan's partitions, and the table's schema.

    What earlier executors left can never be published any more, and holds what we are about to write again: it goes.
    """
    found = list(list_files(ledger.storage, partitions))
    ledger.storage.delete([info.name for info in found if held.is_left_behind(info.name)])
    schema = writing.schema(ledger)
    if schema is None:
        url = ledger.storage.url
        raise CorruptFile(f"{url} has a {_SPOKEN[action]} plan and no schema. Nothing was changed.", path=url)
    return {info.name: info.size for info in found}, schema
