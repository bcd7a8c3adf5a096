"""mocketmq: RocketMQ for test environments."""

__version__ = "0.1.0"
DEFAULT_URL = "http://127.0.0.1:9877"
"""Where a broker with default settings listens, and where clients look for one."""
