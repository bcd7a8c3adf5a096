package io.github.mocketmq.junit5;

import io.github.mocketmq.MocketMq;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Names the broker of tests that do not use the JVM's own. Providers are found by {@link java.util.ServiceLoader}. */
public interface BrokerOfTest {
    /**
     * Returns the broker of a test.
     *
     * @param context the test
     * @return the broker, or null if the test is not of this kind
     */
    MocketMq of(ExtensionContext context);
}
