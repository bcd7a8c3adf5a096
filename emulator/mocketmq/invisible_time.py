"""Defaults and limits of invisible times, for all protocols.

A received message is invisible to its group's other consumers until its invisible time ends. Consumers of
remoting and gRPC choose the time in each request; the JSON API has a default. Aliyun's HTTP protocol has no
field for it, so the settings ``aliyun_invisible`` and ``aliyun_ordered_invisible`` define it. Half messages
that a producer pops, and messages that the broker keeps invisible for gRPC push consumers, have other times.
"""

from __future__ import annotations

from typing import Final

from mocketmq.duration import parse_duration_us

JSON_DEFAULT: Final = "30s"
"""Default invisible time of a receive by the JSON API."""
JSON_DEFAULT_US: Final = parse_duration_us(JSON_DEFAULT)

ALIYUN_DEFAULT: Final = "300s"
ALIYUN_ORDERED_DEFAULT: Final = "60s"

RENEWED_US: Final = parse_duration_us("60s")
"""Invisible time of messages for gRPC push consumers, which ``broker/consuming/visibility.py`` extends."""

POPPED_HALF_US: Final = parse_duration_us("10s")
"""Default invisible time of a half message that its producer pops."""

GRPC_SHORTEST_US: Final = parse_duration_us("10s")
"""Minimum invisible time of a receive by gRPC, as in RocketMQ's proxy (minInvisibleTimeMillsForRecv)."""

LONGEST: Final = "12h"
LONGEST_US: Final = parse_duration_us(LONGEST)
"""Maximum invisible time, as in RocketMQ's proxy 5.3.3 (maxInvisibleTimeMills)."""

REMOTING_LONGEST_US: Final = parse_duration_us("365d")
"""Maximum invisible time of a pop. RocketMQ's broker has none; this one keeps instants within 64 bits."""
