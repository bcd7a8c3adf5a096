"""RocketMQ 5's gRPC protocol, which RocketMQ's own proxy serves."""
