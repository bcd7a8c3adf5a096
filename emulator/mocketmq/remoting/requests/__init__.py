"""The requests that clients may send. Each family has a file, with headers, handlers and access rules."""
