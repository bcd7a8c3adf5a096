"""What doors share that keep connections open: TLS with its certificate, and limits on memory."""
