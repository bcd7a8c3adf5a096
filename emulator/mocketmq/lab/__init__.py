"""The lab: measures the delay schemes, each in its own broker, and a real RocketMQ under the same load."""
