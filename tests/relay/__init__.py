"""The relay, over a log in memory and over a real Kafka."""
