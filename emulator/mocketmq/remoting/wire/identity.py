"""What this broker is called among remoting clients. The same names everywhere, as clients compare them."""

from typing import Final

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
REGION: Final = "DefaultRegion"
"""Of every broker outside Aliyun; clients name trace topics after it."""
VERSION: Final = 409
"""Ordinal of V4_9_8 in MQVersion, told in every answer: whose behaviour is followed."""
