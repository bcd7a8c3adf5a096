"""What this broker is called among remoting clients. The same names everywhere, as clients compare them."""

from typing import Final

from mocketmq.rocketmq_versions import V4_9_8

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
REGION: Final = "DefaultRegion"
"""Of every broker outside Aliyun; clients name trace topics after it."""
VERSION: Final = V4_9_8
"""Told in every answer: whose behaviour is followed."""
