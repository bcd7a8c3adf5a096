"""The names of RocketMQ's versions."""

import pytest

from mocketmq.rocketmq_versions import version_name


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (0, "0"),
        (37, "V3_0_11"),
        (121, "V3_4_9"),
        (231, "231"),
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
        (611, "V5_9_9"),
        (612, "612"),
        (2_147_481_762, "2147481762"),
        (-1, "-1"),
    ],
)
def test_versions_have_names(version: int, name: str) -> None:
    assert version_name(version) == name
