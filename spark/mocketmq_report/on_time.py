"""On time: a delivery is on time if it is neither early nor later than ``on_time_us`` after its due time.

``--on-time`` sets ``on_time_us``. ``Header.on_time_us`` of the document records it, and every argument and
field of this name has the same value. The value also decides when a message is late to its consumer
(acknowledged later than ``on_time_us`` after its delivery, ``compute/causes.py``), and when a group is silent
(``compute/outcomes.py``).
"""

from typing import Final

from mocketmq.duration import parse_duration_us

DEFAULT_ON_TIME: Final = "100ms"
DEFAULT_ON_TIME_US: Final = parse_duration_us(DEFAULT_ON_TIME)
