"""A RocketMQ client for the probe, the relay and the lab, with connections, credentials, TLS and requests."""
