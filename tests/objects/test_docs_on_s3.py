# SPDX-License-Identifier: Apache-2.0
"""The page about object stores, run against an S3 server on loopback."""

from __future__ import annotations

import pytest

from tests.kit.documents import needs, pages, run
from tests.objects.conftest import options

pytestmark = [pytest.mark.objects, pytest.mark.slow]


def test_the_page_about_object_stores_runs(endpoint: str) -> None:
    for page in [p for p in pages() if "objects" in needs(p)]:
        run(page, "objects", options=options(endpoint))
