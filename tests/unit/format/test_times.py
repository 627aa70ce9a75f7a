# SPDX-License-Identifier: Apache-2.0
import doctest
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.format import times
from lakebraid.format.times import (
    LocalZone,
    format_instant_time,
    is_instant_time,
    parse_instant_time,
    parse_user_time,
    table_zone,
)

pytestmark = pytest.mark.unit

OSLO = ZoneInfo("Europe/Oslo")
EPOCH_MS = st.integers(-62_135_596_800_000 + 10**8, 253_402_300_799_999 - 10**8)


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(times).failed == 0


@given(EPOCH_MS)
def test_an_instant_time_is_read_back_to_the_millisecond(epoch_ms: int) -> None:
    text = format_instant_time(epoch_ms, UTC)
    assert is_instant_time(text)
    assert len(text) == 17
    assert parse_instant_time(text, UTC) == epoch_ms


@given(EPOCH_MS, st.sampled_from([OSLO, timezone(timedelta(hours=-9, minutes=-30))]))
def test_an_instant_time_in_another_zone_keeps_its_digits(epoch_ms: int, zone: timezone | ZoneInfo) -> None:
    text = format_instant_time(epoch_ms, zone)
    assert format_instant_time(parse_instant_time(text, zone), zone) == text


@given(EPOCH_MS, EPOCH_MS)
def test_instant_times_in_utc_are_ordered_as_the_moments_are(one: int, other: int) -> None:
    assert (one < other) == (format_instant_time(one, UTC) < format_instant_time(other, UTC))


@given(EPOCH_MS, st.sampled_from([UTC, OSLO]))
def test_all_ways_to_give_a_moment_mean_the_same(epoch_ms: int, zone: timezone | ZoneInfo) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    expected = format_instant_time(epoch_ms, zone)
    assert parse_user_time(moment, zone) == expected
    assert parse_user_time(moment.astimezone(OSLO), zone) == expected
    assert parse_user_time(moment.isoformat(), zone) == expected
    if abs(epoch_ms) >= 10**11:
        assert parse_user_time(epoch_ms, zone) == expected
        assert parse_user_time(np.int64(epoch_ms), zone) == expected
    if epoch_ms % 1000 == 0 and abs(epoch_ms // 1000) < 10**11:
        assert parse_user_time(epoch_ms // 1000, zone) == expected


def test_numbers_below_a_hundred_billion_are_seconds_and_above_milliseconds() -> None:
    assert parse_user_time(0, UTC) == "19700101000000000"
    assert parse_user_time(1_767_323_045.678, UTC) == "20260102030405678"
    assert parse_user_time(1_767_323_045_678, UTC) == "20260102030405678"
    assert parse_user_time(99_999_999_999, UTC)[:4] == "5138"
    assert parse_user_time(100_000_000_000, UTC)[:4] == "1973"


def test_text_of_every_accepted_form_is_read() -> None:
    assert parse_user_time("20260102030405678", OSLO) == "20260102030405678"
    assert parse_user_time("20260102030405", OSLO) == "20260102030405000"
    assert parse_user_time("2026-01-02t03:04:05.678901z", UTC) == "20260102030405678"
    assert parse_user_time("2026-01-02 03:04:05-00:30", UTC) == "20260102033405000"
    assert parse_user_time(pd.Timestamp("2026-01-02T03:04:05.678999999Z"), UTC) == "20260102030405678"


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-02T03:04:05",
        "2026-01-02",
        "2026-W01-1T03:04:05Z",
        "2026-01-02T03:04:61Z",
        "2026-13-02T03:04:05Z",
        "20261302030405678",
        "\uff12\uff10\uff12\uff160102030405678",
        "00000000000000000",
        "yesterday",
        "",
        "9" * 1000,
        datetime(2026, 1, 2, 3, 4, 5),
        pd.Timestamp("2026-01-02"),
        pd.NaT,
        True,
        np.bool_(True),
        None,
        math.nan,
        math.inf,
        1e300,
        10**30,
        20260102030405678,
        -(10**15),
        Fraction(10**40, 3),
        b"20260102030405678",
        [],
    ],
)
def test_what_is_no_moment_is_refused_with_what_would_be(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="17 digits") as caught:
        parse_user_time(value, UTC)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("epoch_ms", [10**18, -(10**18), 10**40, 253_402_300_800_000])
def test_moments_beyond_the_calendar_are_refused(epoch_ms: int) -> None:
    with pytest.raises(InvalidArgument):
        format_instant_time(epoch_ms, UTC)


@pytest.fixture
def machine_in_oslo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Oslo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("machine_in_oslo")
@pytest.mark.parametrize("epoch_ms", [1_767_323_045_678, 1_782_000_000_000, 1_792_890_000_000, 1_792_893_600_000])
def test_the_local_zone_follows_the_machine_through_summer_and_winter(epoch_ms: int) -> None:
    assert format_instant_time(epoch_ms, LocalZone()) == format_instant_time(epoch_ms, OSLO)
    moment = datetime.fromtimestamp(epoch_ms / 1000, LocalZone())
    assert moment.timestamp() * 1000 == epoch_ms
    text = format_instant_time(epoch_ms, LocalZone())
    assert parse_instant_time(text, LocalZone()) == parse_instant_time(text, OSLO)


def test_the_zone_of_a_table_is_utc_or_the_machines() -> None:
    assert table_zone("UTC") is UTC
    assert table_zone("utc") is UTC
    assert table_zone("LOCAL") == table_zone(None) == LocalZone()
    with pytest.raises(UnsupportedTable, match=r"hoodie\.table\.timeline\.timezone"):
        table_zone("Europe/Oslo")
