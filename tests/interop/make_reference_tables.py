# SPDX-License-Identifier: Apache-2.0
"""Makes the stored reference tables anew with Apache Hudi: `uv run python -m tests.interop.make_reference_tables [name ...]`.

Each table becomes `tests/data/<name>.zip` (the files) and `tests/data/<name>.json` (Hudi's answers).
"""

import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.interop.referee import Referee

DATA = Path(__file__).parent.parent / "data"
ZIP_BYTES_MAX = 60_000


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Referee.start() as referee:
        for name in names or referee.ask("definitions"):
            store(Path(folder) / name, referee.ask("make", table=name, root=folder))
            print(name, flush=True)


def store(made: Path, answers: dict[str, Any]) -> None:
    archive = DATA / f"{made.name}.zip"
    pack(made, archive)
    if archive.stat().st_size > ZIP_BYTES_MAX:
        raise SystemExit(f"{archive.name} has {archive.stat().st_size} bytes; give the table fewer commits or groups")
    archive.with_suffix(".json").write_text(one_row_a_line(answers), encoding="utf-8")
    shutil.rmtree(made)


def pack(made: Path, archive: Path) -> None:
    """All files and empty folders, but no `.crc` beside them: a checksum of Hadoop's, and half of all names."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(made.rglob("*")):
            inside = path.relative_to(made.parent).as_posix()
            if path.is_file() and not (path.name.startswith(".") and path.name.endswith(".crc")):
                packed.write(path, inside)
            elif path.is_dir() and not any(path.iterdir()):
                packed.write(path, inside + "/")


def one_row_a_line(answers: dict[str, Any]) -> str:
    """JSON that is small and still shows in a diff which rows changed."""
    lines = [f"{json.dumps(key)}: {as_lines(answers[key])}" for key in sorted(answers)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def as_lines(value: object) -> str:
    match value:
        case list() if value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(compact(row) for row in value) + "\n]"
        case dict() if value and all(isinstance(inner, list) for inner in value.values()):
            return (
                "{\n"
                + ",\n".join(f"{json.dumps(key)}: {as_lines(inner)}" for key, inner in sorted(value.items()))
                + "\n}"
            )
    return compact(value)


def compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1:])
