"""mocketmq: RocketMQ for test environments."""

__version__ = "0.1.0"
