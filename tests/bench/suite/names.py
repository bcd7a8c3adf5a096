"""Topics and consumer groups of the order service."""

from collections.abc import Mapping
from typing import Final

ORDERS: Final = "orders"
TIMEOUTS: Final = "timeouts"
STEPS: Final = "steps"
PAYMENTS: Final = "payments"

BILLING: Final = "billing"
SHIPPING: Final = "shipping"
GIFTS: Final = "gifts"
LARGE: Final = "large-orders"
CANCELLING: Final = "cancelling"
ACCOUNTING: Final = "accounting"
TRACKING: Final = "tracking"

TOPICS: Final[Mapping[str, str]] = {
    ORDERS: "NORMAL",
    TIMEOUTS: "DELAY",
    STEPS: "FIFO",
    PAYMENTS: "TRANSACTION",
}
"""Topics with their message types."""
GROUPS: Final = (BILLING, SHIPPING, GIFTS, LARGE, CANCELLING, ACCOUNTING, TRACKING)
IN_ORDER: Final = (TRACKING,)
"""Groups that consume in order."""
