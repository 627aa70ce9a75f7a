# SPDX-License-Identifier: Apache-2.0
"""How Spark's own readers must be told where a file is."""

from __future__ import annotations

import re
from typing import Final

_GLOB_CHARACTER: Final = re.compile(r"[\\\[\]{}*?]")


def spark_address(root: str, path: str) -> str | None:
    r"""What to give `spark.read.parquet` so that it reads exactly the file `path`; None if Spark cannot.

    Found by trying names with PySpark 4.3. Spark takes the text literally: percent-encoding it would address another
    file. But it expands glob characters, unless a backslash stands before them; in an expanded path, as in a file's
    own name, Hadoop takes a colon for the end of a scheme and fails; and Spark skips hidden files without an error.

    >>> spark_address("file://", "/t/a%2Fb/k=x y/f.parquet")
    'file:///t/a%2Fb/k=x y/f.parquet'
    >>> spark_address("s3a://bucket", "/t/[a]/f.parquet")
    's3a://bucket/t/\\[a\\]/f.parquet'
    >>> spark_address("file://", "/t/10:30/f.parquet"), spark_address("file://", "/t/[10:30]/f.parquet")
    ('file:///t/10:30/f.parquet', None)
    """
    file = path.rpartition("/")[2]
    if ":" in file or _is_hidden(file):
        return None
    if not _GLOB_CHARACTER.search(path):
        return root + path
    return None if ":" in path else root + _GLOB_CHARACTER.sub(r"\\\g<0>", path)


def _is_hidden(file: str) -> bool:
    return file.startswith(".") or (file.startswith("_") and "=" not in file) or file.endswith("._COPYING_")
