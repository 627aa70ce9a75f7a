# SPDX-License-Identifier: Apache-2.0
"""Markers: the data files that an instant announces before it makes them: writes in lists, as Hudi's server does, plans one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

from lakebraid import limits
from lakebraid.errors import ObjectNotFound
from lakebraid.format.names import MarkerName, in_partition, parse_data_file, parse_marker
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.new_files import MARKERS

_LIST: Final = re.compile(r"MARKERS[0-9]{1,9}")
"""Markers as lines of such files, with `MARKERS.type` beside them (FORMAT, section 12)."""


def load_markers(storage: Storage, request_time: str) -> list[MarkerName]:
    """The data files of a write, as far as they are its own: no marker can send a rollback elsewhere."""
    folder = f"{MARKERS}/{request_time}/"
    found = storage.list(folder)
    lists = [info for info in found if _LIST.fullmatch(info.name.removeprefix(folder))]
    lines = map_calls(storage, lambda info: _lines(storage, info.name), lists, size=lambda info: info.size)
    return own_markers(chain((info.name.removeprefix(folder) for info in found), *lines), request_time)


def own_markers(names: Iterable[str], request_time: str) -> list[MarkerName]:
    """Those of the names that are markers of files of that request time, each once."""
    found = (parse_marker(name) for name in names)
    return list(dict.fromkeys(m for m in found if m is not None and _is_of(m, request_time)))


def marked_file(marker: MarkerName) -> str:
    """The data file that a marker announces."""
    return in_partition(marker.partition_path, marker.data_file_name)


def _lines(storage: Storage, name: str) -> list[str]:
    # A last line that was cut short is no marker; its file was not made, since Hudi answers its task afterwards. Java's
    # ends of lines, not Python's: a partition may have others in its name.
    try:
        text = storage.read(name, limits.MARKERS_FILE_BYTES_MAX).decode(errors="replace")
    except ObjectNotFound:
        return []  # of a write that another process has just rolled back, and whose markers it removed last
    return text.replace("\r", "\n").split("\n")


def _is_of(marker: MarkerName, request_time: str) -> bool:
    data_file = parse_data_file(marker.data_file_name)
    return data_file is not None and data_file.request_time == request_time
