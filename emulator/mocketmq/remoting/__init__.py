"""RocketMQ's remoting protocol, version 4: a name server and a broker to unmodified clients."""
