"""The remoting protocol's bytes, without I/O: frames, commands, records, signatures."""
