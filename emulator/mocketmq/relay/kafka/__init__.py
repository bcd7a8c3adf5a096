"""The relay on Kafka, by the client aiokafka, which is an extra."""
