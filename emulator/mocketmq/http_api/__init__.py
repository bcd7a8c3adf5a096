"""JSON over HTTP: the first front door. It translates and decides nothing."""
