"""Tests of the relay, with a log in memory and with a real Kafka."""
