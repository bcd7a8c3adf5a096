"""Looking: what people ask for: histories of messages, pending ones, groups' progress, consumers."""
