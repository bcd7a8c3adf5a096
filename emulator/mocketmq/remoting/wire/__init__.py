"""Reads and writes the remoting protocol's frames, headers, bodies, records and signatures, without I/O."""
