"""The relay for RocketMQ 4 and 5, which is at least once. Pending messages wait in a separate topic."""
