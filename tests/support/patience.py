"""Time limits for events that tests expect."""

from typing import Final

PATIENCE_S: Final = 25.0
"""Time in real seconds after which a test fails; shorter than a long poll that nothing wakes, 30 s."""
HANGING_S: Final = 300.0
"""Time in real seconds after which another process counts as hanging, even on a busy machine."""
