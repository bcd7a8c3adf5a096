"""The relay for Kafka, which is exactly once, and needs the optional client aiokafka."""
