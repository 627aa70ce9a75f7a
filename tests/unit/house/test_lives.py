# SPDX-License-Identifier: Apache-2.0
"""Whole lives of tables of all kinds: writes, services, schema changes, restores, all mixed, held against a dictionary.

LAKEBRAID_EXAMPLES=1000 lives a thousand other lives. A life that fails is cut down, and printed as a script.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.lives.walking import live, shrink

pytestmark = [pytest.mark.unit, pytest.mark.slow]

_WANTED = os.environ.get("LAKEBRAID_EXAMPLES")
_FIRST = 0 if _WANTED is None else random.randrange(10**9)
_SEEDS = range(_FIRST, _FIRST + int(_WANTED or "10"))


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_table_is_what_its_writers_made_it_at_every_moment_of_its_life(seed: int) -> None:
    failure = live(seed, 20)
    assert failure is None, f"\n{shrink(failure)}"
