"""The relay for RocketMQ 4 and 5, at least once; pending messages wait in a topic of their own."""
