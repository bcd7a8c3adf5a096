"""TLS, its certificate and memory limits, for the remoting and gRPC ports."""
