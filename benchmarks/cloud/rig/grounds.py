# SPDX-License-Identifier: Apache-2.0
"""Where the tables of a run lie: in a folder with injected latencies, or on an S3 server behind a slow proxy."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import lakebraid as lb
from benchmarks.cloud.rig.calls import TALLY, Call
from benchmarks.cloud.rig.latency import Latencies
from benchmarks.cloud.rig.storage import delayed


class Ground(Protocol):
    """Plain values, so that it travels to the writers' processes."""

    @property
    def title(self) -> str: ...

    def make(self, name: str, schema: str, **how: Any) -> lb.Table:
        """A new table, without delays."""

    def direct(self, name: str) -> lb.Table:
        """An existing one, without delays: to prepare it, and to check it."""

    def slow(self, seed: int = 0) -> AbstractContextManager[None]:
        """Inside this block `opened` gives tables that are as slow as this ground."""

    def opened(self, name: str) -> lb.Table: ...

    def forget(self) -> None:
        """Begins to count anew."""

    def sent(self) -> Sequence[Call]:
        """The requests since then."""

    @property
    def sees_all_processes(self) -> bool:
        """Whether `sent` has the requests of all processes, and not only those of the one that asks."""


@dataclass(frozen=True)
class Injected:
    """A local folder; every process counts its own requests."""

    folder: str
    latencies: Latencies
    sees_all_processes: bool = False

    @property
    def title(self) -> str:
        return f"injected latencies, {'constant' if self.latencies.tail <= 1 else 'lognormal'}"

    def make(self, name: str, schema: str, **how: Any) -> lb.Table:
        return lb.Table.create(self._path(name), schema, **how)

    def direct(self, name: str) -> lb.Table:
        return lb.Table.open(self._path(name))

    def slow(self, seed: int = 0) -> AbstractContextManager[None]:
        return delayed(self.latencies, seed)

    def opened(self, name: str) -> lb.Table:
        return lb.Table.open(self._path(name))

    def forget(self) -> None:
        TALLY.calls.clear()

    def sent(self) -> Sequence[Call]:
        return list(TALLY.calls)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"


@dataclass(frozen=True)
class S3:
    """A bucket on loopback; what is slow goes through the proxy, which counts."""

    server: str
    proxy: str
    bucket: str
    options: dict[str, str] = field(repr=False)
    name: str = "S3"
    sees_all_processes: bool = True

    @property
    def title(self) -> str:
        return f"{self.name} behind the proxy"

    def make(self, name: str, schema: str, **how: Any) -> lb.Table:
        return lb.Table.create(self.url(name), schema, storage_options=self.told(self.server), **how)

    def direct(self, name: str) -> lb.Table:
        return lb.Table.open(self.url(name), self.told(self.server))

    def slow(self, seed: int = 0) -> AbstractContextManager[None]:
        return nullcontext()

    def opened(self, name: str) -> lb.Table:
        return lb.Table.open(self.url(name), self.told(self.proxy))

    def forget(self) -> None:
        urllib.request.urlopen(f"{self.proxy}/.forget", timeout=30).close()

    def sent(self) -> Sequence[Call]:
        with urllib.request.urlopen(f"{self.proxy}/.calls", timeout=60) as answer:
            return [Call(*call) for call in json.load(answer)]

    def faults(self) -> dict[str, int]:
        """How many requests were made to fail since the proxy began, by kind and way."""
        with urllib.request.urlopen(f"{self.proxy}/.faults", timeout=60) as answer:
            return dict(json.load(answer))

    def url(self, name: str) -> str:
        return f"s3://{self.bucket}/{name}"

    def environment(self) -> dict[str, str]:
        """The same for a command that takes its credentials from the environment; what it sends goes through the proxy."""
        return {f"AWS_{key.upper()}": value for key, value in self.told(self.proxy).items()}

    def told(self, endpoint: str) -> dict[str, str]:
        return self.options | {"endpoint": endpoint}
