# SPDX-License-Identifier: Apache-2.0
"""Tables of every kind, drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.kit.models.oracle import (
    Settings,
)
from tests.kit.tables.built_files import ORDER_TYPES


@st.composite
def settings_of(draw: st.DrawFn) -> Settings:
    ordering = draw(st.sampled_from([("ts",), ("ts",), ("ts", "ts2")]))
    by_event = draw(st.sampled_from([True, True, False]))
    fill = draw(st.sampled_from(["", "", "", "", "IGNORE_DEFAULTS", "FILL_UNAVAILABLE"]))
    return Settings(
        ordering=ordering if by_event or draw(st.booleans()) else (),
        by_event=by_event,
        partitioned=draw(st.booleans()),
        buckets=draw(st.sampled_from([1, 2, None])),
        fill=fill,
        complex_keys=draw(st.booleans()),
        meta=draw(st.sampled_from([True, True, True, False])),
        order_type=draw(st.sampled_from(["long", "long", *ORDER_TYPES])),
    )
