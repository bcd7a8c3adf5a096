package io.github.mocketmq.spring;

import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;

/** The addresses of a broker in a container with {@code @ServiceConnection}. */
public interface MocketMqConnectionDetails extends ConnectionDetails {
    /**
     * Returns the address for RocketMQ's remoting clients.
     *
     * @return {@code host:port} of the name server
     */
    String nameServer();

    /**
     * Returns the address for the gRPC clients of RocketMQ 5.
     *
     * @return {@code host:port}
     */
    String endpoints();
}
