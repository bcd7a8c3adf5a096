"""Compatibility beyond RocketMQ itself: Aliyun's HTTP protocol, and delay schemes for absolute due times."""
