# SPDX-License-Identifier: Apache-2.0
"""One Apache Hudi for the whole test session: its JVM takes ten seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.referee import Referee


@pytest.fixture(scope="session")
def referee() -> Iterator[Referee]:
    with Referee.start() as running:
        yield running
