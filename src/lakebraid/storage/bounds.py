# SPDX-License-Identifier: Apache-2.0
"""How much may be read in one go."""

from __future__ import annotations

from lakebraid.errors import CorruptFile, InvalidArgument


def check_size(where: str, size: int, size_max: int) -> None:
    """Raises CorruptFile if an object is larger than its kind may be; called before any of it is read."""
    if size > size_max:
        raise CorruptFile(
            f"{where} has {size:,} bytes, where at most {size_max:,} are expected. It was not read, and nothing was "
            "changed. It is damaged or was not written by Hudi; compare it with a backup.",
            path=where,
            size=size,
            size_max=size_max,
        )


def check_range(start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise InvalidArgument(
            f"{length:,} bytes from byte {start:,} on cannot be read: neither number may be negative. "
            "Nothing was read. Check the caller.",
            start=start,
            length=length,
        )
