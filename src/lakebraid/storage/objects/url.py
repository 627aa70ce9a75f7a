# SPDX-License-Identifier: Apache-2.0
"""The address of a table in an object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebraid.errors import InvalidArgument
from lakebraid.storage.addressing import spark_address
from lakebraid.storage.checks import check_name

OBJECT_SCHEMES: Final = ("s3", "s3a", "s3n", "gs", "az", "abfs", "abfss")

_S3: Final = ("s3", "s3a", "s3n")
_AZURE_ACCOUNT: Final = ("account_name", "azure_storage_account_name", "azure_account_name")


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """Scheme, bucket (or container, with or without its account), and the folder in it; taken literally.

    >>> url = parse_object_url("s3://bucket/warehouse/a%20b/")
    >>> url.text, url.key("x=1/f.parquet")
    ('s3://bucket/warehouse/a%20b', 'warehouse/a%20b/x=1/f.parquet')
    >>> url.name("warehouse/a%20b/x=1/f.parquet")
    'x=1/f.parquet'
    """

    scheme: str
    authority: str
    folder: str

    @property
    def text(self) -> str:
        return f"{self.scheme}://{self.authority}/{self.folder}".rstrip("/")

    @property
    def client_url(self) -> str:
        """The bucket alone, as the client library spells it."""
        return f"{'s3' if self.scheme in _S3 else self.scheme}://{self.authority}"

    def key(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder and name else self.folder or name

    def name(self, key: str) -> str:
        return key[len(self.folder) + 1 :] if self.folder else key

    def spark_address(self, name: str, options: Mapping[str, str]) -> str | None:
        """What Spark must be given, with the scheme and account that Hadoop wants."""
        root = self._spark_root(options)
        return root and spark_address(root, f"/{self.key(name)}")

    def _spark_root(self, options: Mapping[str, str]) -> str | None:
        if self.scheme in _S3:
            return f"s3a://{self.authority}"
        if self.scheme == "gs" or "@" in self.authority:
            return f"{self.scheme}://{self.authority}"
        account = next((options[name] for name in _AZURE_ACCOUNT if name in options), None)
        account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
        return f"abfss://{self.authority}@{account}.dfs.core.windows.net" if account else None


def parse_object_url(text: str) -> ObjectUrl:
    """The parts of the URL. What does not fit is refused without being shown, for it may be a secret."""
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    authority, _, folder = rest.partition("/")
    if scheme not in OBJECT_SCHEMES or not authority:
        raise _refused(scheme, "it names no bucket")
    if "?" in text or "#" in text:
        raise _refused(scheme, "'?' and '#' are not allowed in it")
    if ":" in authority or ("@" in authority and not scheme.startswith("abfs")):
        raise _refused(scheme, "it seems to hold a password or port")
    folder = folder.rstrip("/")
    if folder:
        check_name(folder)
    return ObjectUrl(scheme, authority, folder)


def _refused(scheme: str, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"The {scheme}:// URL is refused: {reason}. Nothing was opened. Write it as in s3://bucket/folder, and give "
        "endpoints, keys and tokens as options or in the environment.",
        scheme=scheme,
    )
