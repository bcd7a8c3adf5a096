"""The bytes of the remoting protocol, without I/O: frames, headers, bodies, records, signatures."""
