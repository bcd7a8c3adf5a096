"""Names of RocketMQ's versions."""

import pytest

from mocketmq.rocketmq_versions import version_name, version_number


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (0, "0"),
        (37, "V3_0_11"),
        (121, "V3_4_9"),
        (212, "212"),
        (213, "V4_0_0"),
        (214, "V4_0_1_SNAPSHOT"),
        (231, "V4_0_9"),
        (232, "V4_1_0_SNAPSHOT"),
        (293, "V4_4_0"),
        (317, "V4_5_2"),
        (333, "V4_6_0"),
        (401, "V4_9_4"),
        (409, "V4_9_8"),
        (412, "V5_0_0_SNAPSHOT"),
        (413, "V5_0_0"),
        (475, "V5_3_1"),
        (479, "V5_3_3"),
        (513, "V5_5_0"),
        (611, "V5_9_9"),
        (612, "612"),
        (2_147_481_762, "2147481762"),
        (-1, "-1"),
    ],
)
def test_versions_have_names(version: int, name: str) -> None:
    assert version_name(version) == name


@pytest.mark.parametrize(
    ("name", "number"), [("4.0.0", 213), ("4.1.0", 233), ("4.9.8", 409), ("5.5.0", 513), ("5.9.9", 611)]
)
def test_releases_have_numbers(name: str, number: int) -> None:
    assert version_number(name) == number


@pytest.mark.parametrize("name", ["5", "5.5", "5.5.10", "5.5.0-SNAPSHOT", "3.9.9", "6.0.0", "V5_5_0"])
def test_names_that_are_no_release_have_no_number(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        version_number(name)
