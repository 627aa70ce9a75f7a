# SPDX-License-Identifier: Apache-2.0
"""Java properties files: `hoodie.properties` with its checksum and backup, and `.hoodie_partition_metadata`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lakebraid.digits import whole_number
from lakebraid.errors import CorruptFile, InvalidArgument, NotATable
from lakebraid.format.damage import damaged
from lakebraid.format.times import is_instant_time
from lakebraid.limits import PARTITION_DEPTH_MAX, PROPERTIES_BYTES_MAX, PROPERTIES_ENTRIES_MAX

TABLE_NAME: Final = "hoodie.table.name"
DATABASE_NAME: Final = "hoodie.database.name"
CHECKSUM: Final = "hoodie.table.checksum"

_BLANK: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ENTRY: Final = re.compile(r"((?:[^\\ \t\f=:]++|\\.)*+)[ \t\f]*+(?:[=:][ \t\f]*+)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TO_ESCAPE: Final = re.compile(r"[^ -~]|[\\=:#!]")
_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def choose_properties(main: bytes | None, backup: bytes | None, where: str) -> dict[str, str]:
    """The table's properties: the main file if it is whole, else a whole backup.

    Hudi updates the file by writing the backup, deleting the main file and writing it anew, so either may be missing
    or half written at any moment. NotATable if neither is there, CorruptFile if none is whole.
    """
    if main is None and backup is None:
        raise NotATable(
            f"{where} does not exist, nor does its backup: there is no Hudi table here. "
            "Check the path; it is the folder that contains `.hoodie`.",
            path=where,
        )
    try:
        chosen = _whole_properties(main, where)
    except CorruptFile as error:
        if backup is None:
            raise
        try:
            return _whole_properties(backup, f"{where}.backup")
        except CorruptFile:
            raise error from None
    return chosen if backup is None else _uncut(chosen, main or b"", backup, where)


def needs_backup(main: bytes | None, where: str) -> bool:
    """Whether the backup could have a say: the main file is missing, damaged, or may still be being written."""
    try:
        return not (main or b"").endswith(b"\n") or CHECKSUM not in _whole_properties(main, where)
    except CorruptFile:
        return True


def _uncut(chosen: dict[str, str], main: bytes, backup: bytes, where: str) -> dict[str, str]:
    """The backup, if the main file was still being written: it has no end of line, or no checksum and the backup has."""
    try:
        other = _whole_properties(backup, f"{where}.backup")
    except CorruptFile:
        return chosen
    is_cut = not main.endswith(b"\n") or (CHECKSUM in other and CHECKSUM not in chosen)
    return other if is_cut else chosen


def _whole_properties(data: bytes | None, where: str) -> dict[str, str]:
    if data is None:
        raise damaged(where, "it does not exist")
    properties = parse_properties(data, where)
    check_properties(properties, where)
    return properties


def check_properties(mapping: Mapping[str, str], where: str) -> None:
    """Raises CorruptFile if the table's name is missing or the checksum, if there is one, does not fit."""
    if not mapping.get(TABLE_NAME):
        raise damaged(where, f"it has no {TABLE_NAME}")
    written = mapping.get(CHECKSUM)
    if written is not None and written.strip() != str(checksum(mapping)):
        raise damaged(where, f"its {CHECKSUM} is {written[:40]!r} where {checksum(mapping)} belongs")


def checksum(mapping: Mapping[str, str]) -> int:
    """CRC-32 of `<database>.<table>`: all that Hudi protects.

    >>> checksum({"hoodie.table.name": "v6_mor_bucket"})
    399578307
    """
    return zlib.crc32(f"{mapping.get(DATABASE_NAME, '')}.{mapping[TABLE_NAME]}".encode())


def parse_properties(data: bytes, where: str) -> dict[str, str]:
    r"""All entries of a Java properties file, in the order of the file; the last of equal keys counts.

    >>> parse_properties(b"# note\na = b\\\n    c\nd\\:e:f\\u0041\n", "example")
    {'a': 'bc', 'd:e': 'fA'}
    """
    if len(data) > PROPERTIES_BYTES_MAX:
        raise damaged(where, f"a properties file of {len(data):,} bytes is larger than {PROPERTIES_BYTES_MAX:,}")
    entries: dict[str, str] = {}
    for count, line in enumerate(_logical_lines(data.decode("latin-1"))):
        if count >= PROPERTIES_ENTRIES_MAX:
            raise damaged(where, f"it has more than {PROPERTIES_ENTRIES_MAX:,} entries")
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise damaged(where, f"entry {count + 1} is not a key and a value")
        key, value = (_unescape(part, where) for part in match.groups())
        entries[key] = value
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANK)
        if not parts and (not line or line[0] in "#!"):
            continue
        # An odd number of backslashes at the end continues the line; an even number is escaped backslashes.
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            if len(line) > 1:
                parts.append(line[:-1])
            continue
        yield "".join([*parts, line])
        parts = []
    if parts:
        yield "".join(parts)


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    try:
        plain = _ESCAPE.sub(_unescape_one, text)
        # Java escapes characters beyond the first plane as two halves; a lone half is no text.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except ValueError as error:
        raise damaged(where, f"{text[:60]!r} has an escape that is no character") from error


def _unescape_one(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code is not None:
        return chr(int(code, 16))
    if character == "u":
        raise ValueError(match.string)
    return _ESCAPED.get(character, character)


def format_properties(mapping: Mapping[str, str], comment: str | None = None) -> bytes:
    """The file's bytes: entries in the given order, the checksum last. Writing what it reads is checked."""
    keys = sorted(mapping, key=lambda key: key == CHECKSUM)
    lines = [f"#{_escape_comment(line)}" for line in _LINE_END.split(comment)] if comment is not None else []
    lines += [f"{_escape(key, key=True)}={_escape(mapping[key], key=False)}" for key in keys]
    data = "".join(f"{line}\n" for line in lines).encode("ascii")
    if not _is_read_back(data, dict(mapping)):
        raise InvalidArgument(
            "These properties would not be read back as they are. Nothing was written. Remove characters that are no "
            f"text (lone surrogates) and stay below {PROPERTIES_ENTRIES_MAX:,} entries and {PROPERTIES_BYTES_MAX:,} bytes."
        )
    return data


def _is_read_back(data: bytes, mapping: dict[str, str]) -> bool:
    try:
        return parse_properties(data, "the new properties file") == mapping
    except CorruptFile:
        return False


def _escape(text: str, *, key: bool) -> str:
    escaped = _TO_ESCAPE.sub(_escape_one, text)
    if key:
        return escaped.replace(" ", "\\ ")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escape_comment(text: str) -> str:
    return re.sub(r"[^ -~]", _escape_one, text)


def _escape_one(match: re.Match[str]) -> str:
    character = match[0]
    if " " <= character <= "~":
        return f"\\{character}"
    units = character.encode("utf-16-be", "surrogatepass")
    return _ESCAPES.get(character) or "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`.hoodie_partition_metadata`: what makes a folder a partition."""

    commit_time: str
    depth: int


def parse_partition_metadata(data: bytes, where: str) -> PartitionMetadata:
    """Which write made the partition, and how many folders it lies below the table."""
    entries = parse_properties(data, where)
    commit_time, depth = entries.get("commitTime", ""), entries.get("partitionDepth", "")
    if not is_instant_time(commit_time):
        raise damaged(where, f"its commitTime is {commit_time[:40]!r}, not an instant time")
    number = whole_number(depth)
    if number is None or number > PARTITION_DEPTH_MAX:
        raise damaged(where, f"its partitionDepth is {depth[:40]!r}, not a number up to {PARTITION_DEPTH_MAX}")
    return PartitionMetadata(commit_time, number)


def format_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The bytes of `.hoodie_partition_metadata`."""
    entries = {"commitTime": metadata.commit_time, "partitionDepth": str(metadata.depth)}
    data = format_properties(entries, "partition metadata")
    if parse_partition_metadata(data, "the new partition metadata") != metadata:
        raise InvalidArgument(f"{metadata!r} would not be read back as it is. Nothing was written.")
    return data
