"""The broker's names as clients see them. Clients compare the names, so all responses must use the same."""

from typing import Final

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
MAX_BROKERS: Final = 8
"""Largest number of brokers in a cluster."""
MAX_NAME_SERVERS: Final = 8
"""Largest number of name servers in a cluster."""
REGION: Final = "DefaultRegion"
"""The region of every broker outside Aliyun; clients name trace topics after it."""
