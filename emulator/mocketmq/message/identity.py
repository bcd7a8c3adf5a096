"""The broker's names, as clients see them. Clients compare them, so every answer uses the same ones."""

from typing import Final

from mocketmq.rocketmq_versions import V4_9_8

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
REGION: Final = "DefaultRegion"
"""The region of every broker outside Aliyun; clients name trace topics after it."""
VERSION: Final = V4_9_8
"""The RocketMQ version that answers report, whose behaviour the broker follows."""
