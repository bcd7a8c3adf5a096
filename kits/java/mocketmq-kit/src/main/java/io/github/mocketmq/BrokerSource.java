package io.github.mocketmq;

import java.util.List;

/**
 * Another way to start a broker, tried last. Providers are found by {@link java.util.ServiceLoader}.
 */
public interface BrokerSource {
    /**
     * Starts a broker.
     *
     * @param options options of {@code mocketmq serve} besides those of addresses and ports
     * @return the broker, or null if this source cannot start one here
     */
    FoundBroker start(List<String> options);
}
