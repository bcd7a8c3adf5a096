"""The relay in front of RocketMQ 4 and 5: it keeps what waits in topics of their own, at least once."""
