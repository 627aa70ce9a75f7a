# SPDX-License-Identifier: Apache-2.0
"""The ranges of the columns of one data file, found where its rows are written.

Readers pass over a file group if none of its files may hold what they look for. In most tables that is safe, since the row that
wins lies in one file as it is. Where values of a row come from several files each of them alone may say no to a filter of two
columns, though the row matches. So of the file of the newest version of a row, columns that it may lack count as if they
could hold anything: they are *inherited*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakebraid.model.config import RECORD_KEY, TableConfig, TableType
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.metadata.ranges import ColumnRange, absent_range, column_range, column_values, unite


@dataclass(frozen=True, slots=True)
class RangeRules:
    """Of which columns the files of a table have ranges; none if it keeps no statistics."""

    columns: tuple[str, ...] = ()
    identity: frozenset[str] = frozenset()
    """Columns on which all versions of a row agree."""
    has_groups: bool = False
    """Whether groups of columns are ordered apart, so that any row may win for some of them only."""


NO_COLUMNS: Final = RangeRules()


def range_rules(columns: tuple[str, ...], config: TableConfig, schema: pa.Schema) -> RangeRules:
    """The rules for these indexed columns of a table with this schema."""
    if config.table_type is TableType.COW:
        return RangeRules(columns, frozenset(columns))  # files of such a table hold whole rows, one for each group
    rules = merge_rules(config, schema)
    identity = frozenset({*rules.identity_columns, RECORD_KEY, "_hoodie_partition_path"})
    return RangeRules(columns, identity, bool(rules.groups))


@dataclass(frozen=True, slots=True)
class FileRanges:
    """What is known of the columns of a data file; one of which there is no range may hold anything."""

    columns: tuple[ColumnRange, ...] = ()
    inherited: frozenset[str] = frozenset()
    """Columns of which its rows may have values that are in other files of the group."""


NOT_KNOWN: Final = FileRanges()


class RangeTally:
    """The ranges of one file, whose rows come in batches."""

    def __init__(self, rules: RangeRules) -> None:
        self._rules = rules
        self._known: dict[str, ColumnRange | None] = {}
        self._inherited: set[str] = set()

    def add(self, rows: pa.Table, *, is_partial: bool = False) -> None:
        """Takes rows; of partial ones the columns that they lack have values elsewhere, of whole ones they are null."""
        if not rows.num_rows:
            return
        for name in self._rules.columns:
            values = column_values(rows, name)
            if values is not None:
                self._unite(name, column_range(name, values))
            elif is_partial:
                self._inherited.add(name)
            else:
                self._unite(name, absent_range(name, rows.num_rows))

    def add_log(self, rows: pa.Table, *, is_partial: bool = False) -> None:
        """Takes rows of a log file."""
        self.add(rows, is_partial=is_partial)
        if self._rules.has_groups and rows.num_rows:
            self.inherit()

    def inherit(self) -> None:
        """Says that a row may have any of its values, save those that identify it, from another file."""
        self._inherited |= {*self._rules.columns} - self._rules.identity

    def found(self) -> FileRanges:
        """The ranges of all rows that came; columns of types that are not indexed, or changed beyond comparison, have none."""
        known = [self._known.get(name, absent_range(name, 0)) for name in self._rules.columns]
        return FileRanges(tuple(found for found in known if found is not None), frozenset(self._inherited))

    def _unite(self, name: str, found: ColumnRange | None) -> None:
        if name in self._known:
            known = self._known[name]
            found = None if known is None or found is None else unite(known, found)
        self._known[name] = found
