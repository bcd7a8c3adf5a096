"""The client's side of a cluster of RocketMQ: connections, accounts, TLS, and what requests say."""
