"""Times carry their zone, durations their unit."""

from datetime import timedelta

import pytest

from pulumi_infercrane.guard.times import format_duration, format_time, parse_date, parse_duration, parse_time


def test_a_time_survives_the_round_trip():
    assert format_time(parse_time("2026-11-30T05:00:00Z")) == "2026-11-30T05:00:00Z"


@pytest.mark.parametrize(
    "text",
    ["2026-11-30T05:00:00", "2026-11-30T05:00:00+01:00", "2026-11-30 05:00:00Z", "2026-13-01T00:00:00Z", "", "now"],
)
def test_a_time_without_utc_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


@pytest.mark.parametrize("year", ["0000", "0001", "1969", "3000", "9999"])
def test_a_time_nothing_was_measured_at_is_refused(year):
    with pytest.raises(ValueError, match="not a UTC time"):
        parse_time(f"{year}-06-30T05:00:00Z")
    with pytest.raises(ValueError, match="not a date"):
        parse_date(f"{year}-06-30")


@pytest.mark.parametrize("text", ["2026-11-30T05:00:00Z", "2026-02-30", ""])
def test_another_date_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)


def test_the_longest_age_after_the_latest_time_is_still_a_time():
    assert parse_time("2999-12-31T23:59:59Z") + parse_duration("999999d")


@pytest.mark.parametrize(("text", "duration"), [("7d", timedelta(7)), ("24h", timedelta(1)), ("90s", timedelta(0, 90))])
def test_durations(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["7", "d", "1w", "-1d", "1.5h", "7 d"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_the_largest_whole_unit_is_shown():
    assert [format_duration(timedelta(0, s)) for s in (604800, 5400, 90)] == ["7d", "90m", "90s"]
