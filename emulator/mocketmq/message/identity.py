"""The names by which clients know this broker. They compare names, so these are used everywhere."""

from typing import Final

from mocketmq.rocketmq_versions import V4_9_8

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
REGION: Final = "DefaultRegion"
"""The region of every broker outside Aliyun; clients name trace topics after it."""
VERSION: Final = V4_9_8
"""The version in every answer: the one whose behaviour is followed."""
