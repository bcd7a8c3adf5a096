"""Compatibility with Aliyun and with patched brokers, beyond RocketMQ itself; the app plugs it in."""
