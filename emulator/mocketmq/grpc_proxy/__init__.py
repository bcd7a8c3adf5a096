"""RocketMQ's gRPC protocol for the clients of RocketMQ 5, which upstream's proxy serves."""
