"""The remoting server: ports, connections and TLS detection."""
