# SPDX-License-Identifier: Apache-2.0
"""What a read is told by Hudi's options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from lakebraid.errors import InvalidArgument
from lakebraid.options.parsing import Sorted, sort_options, tell

Query = Literal["snapshot", "read_optimized", "incremental"]
Format = Literal["latest_state", "cdc", "changes"]

_OLD_WORDS: Final = {"realtime": "snapshot"}
_HUDI_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,3}))?)?")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which rows, of which moment, in which form."""

    path: str | None = None
    query: Query = "snapshot"
    as_of: str | None = None
    begin: str | None = None
    """Changes completed after it; None: from the beginning."""
    end: str | None = None
    form: Format = "latest_state"
    meta_columns: bool = True
    where: str | None = None
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """May hold credentials."""


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """Hudi's options of a read, checked; those without effect are told as warnings."""
    found = sort_options(given, "read")
    tell(found.notices)
    form = found.word("hoodie.datasource.query.incremental.format")
    query = found.word("hoodie.datasource.query.type") or ("incremental" if form else "snapshot")
    options = ReadOptions(
        path=found.get("path"),
        query=cast("Query", _OLD_WORDS.get(query, query)),
        as_of=_time(found, "as.of.instant"),
        begin=_begin(found),
        end=_time(found, "hoodie.datasource.read.end.instanttime"),
        form=cast("Format", form or "latest_state"),
        meta_columns=found.word("lakebraid.meta_columns") != "false",
        where=found.get("lakebraid.where"),
        storage=tuple(sorted(found.storage.items())),
    )
    _check_fits(options)
    return options


def _begin(found: Sorted) -> str | None:
    """The time; None for none, and for Hudi's words for the beginning."""
    text = _time(found, "hoodie.datasource.read.begin.instanttime")
    return None if text is None or text.lower() == "earliest" or re.fullmatch("0+", text) else text


def _time(found: Sorted, name: str) -> str | None:
    """A time as Hudi takes it: text without a zone means the digits of the timeline's own zone."""
    text = found.get(name)
    if text is None:
        return None
    parts = _HUDI_TIME.fullmatch(text)
    return (
        text if parts is None else "".join(part or "00" for part in parts.groups()[:6]) + (parts[7] or "").ljust(3, "0")
    )


def _check_fits(options: ReadOptions) -> None:
    if options.query == "incremental" and options.as_of is not None:
        raise InvalidArgument(
            "as.of.instant and an incremental query exclude each other. Nothing was read. Use "
            "hoodie.datasource.read.end.instanttime for the end of the changes.",
            option="as.of.instant",
        )
    if options.query == "incremental" and options.where is not None:
        raise InvalidArgument(
            "lakebraid.where is for snapshots. Nothing was read. Filter the changes themselves.",
            option="lakebraid.where",
        )
