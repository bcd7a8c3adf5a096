"""The report of a lab: delay schemes and a real RocketMQ side by side, under the same load."""
