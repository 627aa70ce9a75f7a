# SPDX-License-Identifier: Apache-2.0
"""Where a table may be made: hoodie.properties comes last, so a half-made table is none, and can be made again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebraid.errors import InvalidArgument
from lakebraid.format.names import BaseFileName, parse_data_file
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import PARTITION_MARK, PROPERTIES

_HOODIE: Final = ".hoodie"
_LEDGER: Final = ".hoodie/.lakebraid/ledger"
_BEGUN: Final = frozenset({".hoodie/.lakebraid", ".hoodie/.temp"})
"""What an attempt makes before it has decided."""
_DECIDED: Final = _BEGUN | {".hoodie/timeline"}
"""What it makes once it has; the next process finishes it."""
_NAMES_SHOWN: Final = 5


def check_vacant(storage: Storage) -> None:
    """Raises InvalidArgument unless a table can be made here: the folder is empty, or an attempt to make one died.

    The error's fact `exists` tells whether a table is there already.
    """
    files, folders = storage.list_folder("")
    inside, below = storage.list_folder(_HOODIE) if _HOODIE in folders else ([], [])
    if any(info.name in (PROPERTIES, f"{PROPERTIES}.backup") for info in inside):
        raise InvalidArgument(
            f"There is a Hudi table at {storage.url} already. Nothing was changed. Open it with Table.open, say "
            "exist_ok=True to open it if it is there, or choose another path.",
            path=storage.url,
            exists=True,
        )
    decided = {info.name.rpartition("/")[2].lstrip("0") for info in storage.list(_LEDGER)} if below else set()
    if inside or decided - {"1"} or set(below) - (_DECIDED if decided else _BEGUN):
        raise InvalidArgument(
            f"{storage.url} holds the remains of a Hudi table: {_HOODIE} has files, but no {PROPERTIES}. Nothing was "
            "changed. Restore that file if the table is needed; else remove the folder, or create elsewhere.",
            path=storage.url,
            exists=False,
        )
    begun = bool(below)
    _check_alone(storage.url, [i.name for i in files if not _is_beginning(i.name, begun=begun)], folders)


def _check_alone(url: str, files: Iterable[str], folders: Iterable[str]) -> None:
    others = [*files, *(f"{folder}/" for folder in folders if folder != _HOODIE)]
    if others:
        more = f" and {len(others) - _NAMES_SHOWN:,} more" if len(others) > _NAMES_SHOWN else ""
        raise InvalidArgument(
            f"{url} is not empty: it holds {', '.join(others[:_NAMES_SHOWN])}{more}. Nothing was changed. "
            "Create the table in a folder of its own.",
            path=url,
            exists=False,
        )


def _is_beginning(name: str, *, begun: bool) -> bool:
    """Whether an attempt that died may have made this: the partition's file, or an empty base file of a bucket."""
    parsed = parse_data_file(name)
    is_seed = begun and isinstance(parsed, BaseFileName) and bucket_of_file_id(parsed.file_id) is not None
    return is_seed or name == PARTITION_MARK
