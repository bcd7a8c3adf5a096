"""How long tests wait for what should come."""

from typing import Final

PATIENCE_S: Final = 25.0
"""Real seconds after which it fails the test. A long poll that nobody wakes lasts longer: 30."""
HANGING_S: Final = 300.0
"""Real seconds after which other processes are taken to hang, however busy the machine is."""
