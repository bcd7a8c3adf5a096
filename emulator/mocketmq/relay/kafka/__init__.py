"""The relay for Kafka, exactly once; needs the optional client aiokafka."""
