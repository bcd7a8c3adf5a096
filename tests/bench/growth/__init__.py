"""How cost grows with messages, topics and clients."""
