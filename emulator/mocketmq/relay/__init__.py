"""The relay: takes delayed messages from a topic of a real broker, and sends them on when they are due."""
