"""Run the same load over the delay schemes, each in a broker of its own, and over a real RocketMQ."""
