# SPDX-License-Identifier: Apache-2.0
"""How the rows of one table are told apart and ranked: what a merge needs to know, and nothing else."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.config import IS_DELETED_COLUMN, OPERATION_COLUMN, RECORD_KEY, MergeMode, PartialMode, TableConfig
from lakebraid.model.ordering import Bools
from lakebraid.model.schema.conform import widen
from lakebraid.model.values.arrow_numpy import flagged


class KeyForm(enum.Enum):
    """Where a row's key is read from."""

    COLUMN = "column"  # the key column itself: its text is the record key
    META = "meta"  # _hoodie_record_key
    RENDERED = "rendered"  # made anew from the key columns: the table has no meta columns


@dataclass(frozen=True, slots=True)
class OrderGroup:
    """Columns that one column of the row orders, apart from the other columns."""

    by: str
    columns: tuple[str, ...]
    """`by` is among them."""


@dataclass(frozen=True, slots=True)
class MergeRules:
    """The rules of one table."""

    key_form: KeyForm
    key_columns: tuple[str, ...]
    identity_columns: tuple[str, ...]
    """Columns on which all versions of a row agree, because its key is made of them."""
    complex_keys: bool
    order_columns: tuple[str, ...]
    """Empty if the table orders by commit time."""
    delete_columns: tuple[str, ...]
    """Columns that may mark a row as deleted."""
    delete_marker: tuple[str, str] | None
    partial_mode: PartialMode
    unavailable_value: str | None
    groups: tuple[OrderGroup, ...] = ()
    """Of a table whose columns are ordered in groups; its other columns, and deletes, go by commit time."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column a merge must read, whatever the caller wants to see."""
        return tuple(dict.fromkeys((*self.key_columns, *self.every_order_column, *self.delete_columns)))

    @property
    def every_order_column(self) -> tuple[str, ...]:
        """The columns that order rows or groups of columns."""
        return (*self.order_columns, *(group.by for group in self.groups))

    def clock(self, column: str) -> tuple[str, ...]:
        """The columns that order the values of this one; none if its request time does."""
        found = next((group.by for group in self.groups if column in group.columns), None)
        return self.order_columns if found is None else (found,)


def merge_rules(config: TableConfig, schema: pa.Schema) -> MergeRules:
    """The rules of a table with this schema (without meta columns)."""
    form, columns = _keys(config, schema)
    marker = (config.delete_field, config.delete_marker) if config.delete_field and config.delete_marker else None
    marks = [IS_DELETED_COLUMN, OPERATION_COLUMN, *([marker[0]] if marker else [])]
    names = set(schema.names)
    by_event = config.merge_mode is MergeMode.EVENT_TIME
    return MergeRules(
        key_form=form,
        key_columns=columns,
        identity_columns=(*config.record_keys, RECORD_KEY),
        complex_keys=config.has_complex_keys,
        order_columns=tuple(f for f in config.ordering_fields if f in names) if by_event else (),
        delete_columns=tuple(m for m in marks if m in names),
        delete_marker=marker if marker and marker[0] in names else None,
        partial_mode=config.partial_mode,
        unavailable_value=config.unavailable_value,
        groups=tuple(_group(by, columns, names) for by, columns in config.ordering_groups if by in names),
    )


def marked_deleted(rows: pa.Table, rules: MergeRules) -> Bools:
    """Which rows say of themselves that they are deletes."""
    deleted = np.zeros(rows.num_rows, np.bool_)
    for name in rules.delete_columns:
        column = rows.column(name)
        if name == IS_DELETED_COLUMN and pa.types.is_boolean(column.type):
            deleted |= flagged(column)
        elif name == OPERATION_COLUMN and pa.types.is_string(column.type):
            deleted |= flagged(pc.equal(column, "D"))
        if rules.delete_marker is not None and name == rules.delete_marker[0]:
            deleted |= flagged(
                pc.equal(widen(column, pa.string(), f"the delete marker {name}"), rules.delete_marker[1])
            )
    return deleted


def _group(by: str, columns: tuple[str, ...], names: set[str]) -> OrderGroup:
    return OrderGroup(by, (by, *(column for column in columns if column in names and column != by)))


def _keys(config: TableConfig, schema: pa.Schema) -> tuple[KeyForm, tuple[str, ...]]:
    """The cheapest place to read keys from: a plain key column saves reading its copy in the meta column."""
    if len(config.record_keys) == 1 and config.key_generator in ("SIMPLE", "NON_PARTITION", "TIMESTAMP"):
        at = schema.get_field_index(config.record_keys[0])
        if at >= 0 and _is_plain(schema.field(at).type):
            return KeyForm.COLUMN, config.record_keys
    if config.populate_meta:
        return KeyForm.META, (RECORD_KEY,)
    return KeyForm.RENDERED, config.record_keys


def _is_plain(kind: pa.DataType) -> bool:
    """Types whose values and texts stand for each other one to one."""
    return bool(pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind))
