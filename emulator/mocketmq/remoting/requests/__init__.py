"""Every request of the remoting protocol: a file per family."""
