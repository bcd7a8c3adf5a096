"""The broker's names as clients see them. Clients compare the names, so all responses must use the same."""

from typing import Final

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
REGION: Final = "DefaultRegion"
"""The region of every broker outside Aliyun; clients name trace topics after it."""
