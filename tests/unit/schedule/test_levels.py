"""The level table: accepted and refused texts, and the level that a message requests."""

import pytest

from mocketmq.clock import US_PER_S
from mocketmq.errors import InvalidArgumentError, SettingError
from mocketmq.message.properties import DELAY
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings

DEFAULT = LevelTable.parse(Settings().levels)


def test_the_default_table_is_upstreams() -> None:
    seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    assert [delay_us // US_PER_S for delay_us in DEFAULT.delays_us] == seconds
    assert DEFAULT.highest == 18
    assert [DEFAULT.describe(level) for level in (1, 5, 14, 18)] == ["1s", "1m", "10m", "2h"]


def test_levels_are_numbered_by_position() -> None:
    table = LevelTable.parse("2d 0s -5s +3m 007h")
    assert [delay_us // US_PER_S for delay_us in table.delays_us] == [172_800, 0, -5, 180, 25_200]


def test_a_removed_level_has_a_delay_of_one_second() -> None:
    assert LevelTable.parse("5s").delay_us(2) == US_PER_S


@pytest.mark.parametrize(
    ("text", "position", "token"),
    [
        ("", 1, ""),
        ("1s  5s", 2, ""),
        ("1s ", 2, ""),
        ("1", 1, "1"),
        ("1s 5", 2, "5"),
        ("1s s", 2, "s"),
        ("1S", 1, "1S"),
        ("1ms", 1, "1ms"),
        ("1s 1.5m", 2, "1.5m"),
        ("1s\t5s", 1, "1s\\t5s"),
        ("1s,5s", 1, "1s,5s"),
        ("٣s", 1, "٣s"),
        ("9999999999999s", 1, "9999999999999s"),
        ("1s 999999999999d", 2, "999999999999d"),
        ("36501d", 1, "36501d"),
        ("-36501d", 1, "-36501d"),
        ("3153600001s", 1, "3153600001s"),
    ],
)
def test_a_bad_token_is_named(text: str, position: int, token: str) -> None:
    with pytest.raises(SettingError) as refused:
        LevelTable.parse(text)
    assert refused.value.field == "levels"
    assert f"number {position}, '{token}', is not one" in str(refused.value)
    assert "from -36500d to 36500d" in refused.value.allowed


def test_long_bad_token_is_shortened() -> None:
    with pytest.raises(SettingError, match=r"number 1, 'x+…") as refused:
        LevelTable.parse("x" * 10_000)
    assert len(str(refused.value)) < 400


def test_delays_and_tables_up_to_their_limits_are_accepted() -> None:
    century_us = 36_500 * 86_400 * US_PER_S
    assert LevelTable.parse("36500d -36500d 876000h").delays_us == (century_us, -century_us, century_us)
    assert LevelTable.parse(" ".join(["1s"] * 1_000)).highest == 1_000


def test_a_table_of_more_than_1_000_levels_is_refused_with_their_number() -> None:
    with pytest.raises(SettingError, match=r"setting levels is '1s 1s .*1 to 1000 .*; there are 1001$"):
        LevelTable.parse(" ".join(["1s"] * 1_001))


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("1", 1),
        ("18", 18),
        ("+5", 5),
        ("007", 7),
        ("0" * 100 + "5", 5),
        ("0", 0),
        ("-0", 0),
        ("-1", 0),
        (str(-(1 << 31)), 0),
    ],
)
def test_level_is_read_from_the_property(text: str, level: int) -> None:
    properties = {DELAY: text}
    assert DEFAULT.level_of(properties) == level
    assert properties == {DELAY: text}


@pytest.mark.parametrize("text", ["19", "1000", "+19", "0" * 10_000 + str((1 << 31) - 1)])
def test_a_level_above_the_highest_is_clamped_and_rewritten(text: str) -> None:
    properties = {DELAY: text}
    assert DEFAULT.level_of(properties) == 18
    assert properties == {DELAY: "18"}


def test_no_property_is_no_delay() -> None:
    assert DEFAULT.level_of({"KEYS": "3"}) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "abc",
        "1.5",
        "1e3",
        "0x10",
        "1 ",
        "٣",
        "--1",
        "1\n",
        "x" * 10_000,
        str(1 << 31),
        "-" + "9" * 10_000,
    ],
)
def test_an_invalid_number_is_refused_with_the_limits(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 18") as refused:
        DEFAULT.level_of({DELAY: text})
    assert refused.value.field == "delay_level"
    assert str(refused.value).startswith(
        f'java.lang.NumberFormatException: For input string: "{text[:40]}"; '
    )
    assert len(str(refused.value)) < 200
