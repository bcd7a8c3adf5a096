"""What applications see when one of two brokers crashes, for docs/brokers-and-clients.md."""
