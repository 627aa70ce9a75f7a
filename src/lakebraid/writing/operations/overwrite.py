# SPDX-License-Identifier: Apache-2.0
"""Overwrites as a transaction does them: which partitions go, where the new rows go, and what else Hudi needs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.conflicts import Begun
from lakebraid.model.keys.buckets import Replaced
from lakebraid.model.keys.keys import render_values
from lakebraid.model.keys.partitions import check_partition_path, partition_path
from lakebraid.model.operations import Operation
from lakebraid.model.values.exact import Inexact, exact_array, refused
from lakebraid.table.view import load_view
from lakebraid.tasks.engine import Engine
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.checks.overwrite_maps import ReplacedMap
from lakebraid.txn.checks.overwrites import Overwrite
from lakebraid.txn.checks.rivalry import Placement
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.writing.request import WriteRequest

PartitionLike = str | Mapping[str, Any] | Sequence[Any]
"""A partition: its path (`"town=here"`), or its values, by name or in the order of the partition columns."""


@dataclass
class Overwriting:
    """The part of a transaction that only overwrites have."""

    overwrite: Overwrite
    count: int = 0
    """How many file groups go, as of the last round."""

    @classmethod
    def of(cls, request: WriteRequest, begun: Begun | None, *, updates_allowed: bool) -> Self | None:
        """The part of an overwrite that knows what was under way when it began; None without that."""
        if begun is None:
            return None
        scope = None if request.operation == "insert_overwrite_table" else request.partitions
        return cls(Overwrite(begun, scope, updates_allowed))

    def placement(self) -> Placement:
        """New file groups, wherever rows go: what is written is not hidden by the very replacement it belongs to (F8)."""
        return Placement(known=ReplacedMap(replaced=Replaced(whole=self.overwrite.request_time)))

    def replace(self, now: Round, files: Sequence[StagedFile], writer: str) -> dict[str, tuple[str, ...]]:
        """What the commit says it replaces, in this round; WriteConflict if that would drop rows of another writer."""
        replaced = self.overwrite.replace(now, files, writer)
        self.count = sum(map(len, replaced.values()))
        return replaced

    def seeds(
        self, ledger: Ledger, engine: Engine, plan: WritePlan, files: Sequence[StagedFile]
    ) -> Iterator[StagedFile]:
        """Empty base files for buckets that got no rows, where Hudi must find the new ids.

        Its writers on a shared table look for the id of a bucket in the listing, and its readers hide a bucket without
        base file behind a pending first write (FORMAT, trap 1): tables without partitions begin with such files, too.
        """
        config = ledger.config
        if config.buckets is None or config.is_placed or (config.partition_fields and not ledger.is_shared):
            return
        based = {(file.partition, file.file_id) for file in files if file.is_base}
        partitions = sorted(self._scope(ledger, files))
        groups = ((folder, plan.file_id(folder, bucket)) for folder in partitions for bucket in range(plan.buckets))
        yield from engine.seeds(plan, (group for group in groups if group not in based))

    def _scope(self, ledger: Ledger, files: Iterable[StagedFile]) -> set[str]:
        """The partitions that are about to be replaced. One that comes before the commit is a conflict."""
        written = {file.partition for file in files}
        if self.overwrite.partitions is not None:
            return written | self.overwrite.partitions
        if not ledger.config.partition_fields:
            return {""}
        return written | {g.partition for g in load_view(ledger.table).groups}


def partition_names(
    given: Iterable[PartitionLike], config: TableConfig, columns: pa.Schema, url: str
) -> frozenset[str]:
    """The paths of these partitions; InvalidArgument if one cannot be a partition of the table with these columns."""
    if not config.partition_fields:
        raise InvalidArgument(
            f"{url} has no partitions. Nothing was deleted. To empty it use `insert_overwrite_table([])`; rows go by "
            "`delete(where=...)`.",
            path=url,
        )
    if isinstance(given, str | Mapping):
        given = [given]
    found = frozenset(_path(one, config, columns, url) for one in given)
    if not found:
        raise InvalidArgument("No partition was named, so nothing was deleted. Give at least one.", path=url)
    return found


def check_overwrite(operation: Operation, config: TableConfig, url: str) -> None:
    """InvalidArgument where a key of the new rows may live in a partition that stays: it would then be there twice."""
    if operation == "insert_overwrite" and config.is_global and config.partition_fields:
        raise InvalidArgument(
            f"{url} keeps each key once in all partitions ({config.index}), and insert_overwrite does not look into those that "
            "it leaves. Nothing was written. Give all rows to insert_overwrite_table, or delete_partitions and then upsert.",
            path=url,
            operation=operation,
        )


def check_there(names: frozenset[str], there: Iterable[str], url: str) -> None:
    """InvalidArgument if one of these partitions holds nothing: a wrong spelling must not pass for success."""
    known = sorted(set(there))
    missing = sorted(names - {*known})
    if missing:
        shown = ", ".join(known[: limits.NAMES_SHOWN_MAX]) or "none"
        more = len(known) - limits.NAMES_SHOWN_MAX
        raise InvalidArgument(
            f"{url} has no partition {missing[0]!r}{f' nor {len(missing) - 1} others' if missing[1:] else ''}. Nothing was "
            f"deleted. There are: {shown}{f' and {more} more' if more > 0 else ''}. Pass missing_ok=True to pass over "
            "those that are not there.",
            path=url,
            partitions=tuple(missing),
        )


def _path(given: PartitionLike, config: TableConfig, columns: pa.Schema, url: str) -> str:
    fields = config.partition_fields
    if isinstance(given, str):
        path = given.strip("/")
        if not path:
            raise InvalidArgument(f"An empty text names no partition of {url}. Nothing was deleted.", path=url)
        check_partition_path(path, error=InvalidArgument)
        return path
    if isinstance(given, Mapping):
        if {*given} != {*fields}:
            raise InvalidArgument(
                f"A partition of {url} is named by all of {', '.join(fields)}; {', '.join(map(str, given)) or 'nothing'} "
                "was given. Nothing was deleted.",
                path=url,
            )
        values = [given[field] for field in fields]
    else:
        values = [*given] if isinstance(given, Sequence) else [given]
    if len(values) != len(fields):
        raise InvalidArgument(
            f"A partition of {url} has {len(fields)} values ({', '.join(fields)}); {len(values)} were given. Nothing was "
            "deleted.",
            path=url,
        )
    rendered = [_rendered(value, field, columns) for value, field in zip(values, fields, strict=True)]
    return partition_path(rendered, fields, config.hive_style, config.url_encode)


def _rendered(value: Any, field: str, columns: pa.Schema) -> str | None:
    """A value as it stands in paths, by the same rule as those of rows."""
    kind = columns.field(field).type if field in columns.names else pa.string()
    try:
        array = exact_array([value], kind)
    except Inexact as trouble:
        trouble.row = None
        raise refused(trouble, field, "Nothing was deleted.") from None
    text: str | None = render_values(array)[0].as_py()
    return text
