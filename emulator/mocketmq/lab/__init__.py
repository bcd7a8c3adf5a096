"""The lab, which measures each delay scheme in its own broker, and a real RocketMQ under the same load."""
