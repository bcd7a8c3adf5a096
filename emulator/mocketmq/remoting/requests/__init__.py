"""The requests that clients may send: a file per family, with headers, handlers and access rules."""
