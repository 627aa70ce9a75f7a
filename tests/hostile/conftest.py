# SPDX-License-Identifier: Apache-2.0
"""The tables that are attacked."""

from __future__ import annotations

import pytest

from tests.hostile.attack import Target, target


@pytest.fixture
def cow() -> Target:
    """A table of one partition with a base file and no logs."""
    return target("v9_cow_no_meta")


@pytest.fixture
def mor() -> Target:
    """A table with base files, logs of Avro rows and delete lists, and two partitions."""
    return target("v9_mor_bucket_nbcc_avro")
