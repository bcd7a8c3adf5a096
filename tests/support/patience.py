"""How long tests wait for what should come."""

from typing import Final

PATIENCE_S: Final = 25.0
"""Real seconds after which it fails the test. A long poll that nobody wakes lasts longer: 30."""
