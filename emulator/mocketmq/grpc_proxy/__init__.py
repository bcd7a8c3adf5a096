"""RocketMQ's gRPC protocol, which the clients of RocketMQ 5 speak: what its proxy serves upstream."""
