"""RocketMQ's remoting protocol: a name server and a broker for unmodified clients."""
