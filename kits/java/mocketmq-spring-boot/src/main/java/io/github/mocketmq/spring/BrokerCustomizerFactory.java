package io.github.mocketmq.spring;

import io.github.mocketmq.junit5.MocketMqTest;
import java.util.List;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.TestContextAnnotationUtils;
import org.springframework.util.ClassUtils;

/**
 * Gives a broker to the application contexts of tests with {@link MocketMqTest}, or with a static {@code MocketMqContainer}
 * that has {@code @ServiceConnection}.
 */
public final class BrokerCustomizerFactory implements ContextCustomizerFactory {
    private static final boolean HAS_CONTAINERS = isPresent("io.github.mocketmq.testcontainers.MocketMqContainer")
        && isPresent("org.springframework.boot.testcontainers.service.connection.ServiceConnection");

    /** Makes the factory, for Spring. */
    public BrokerCustomizerFactory() {
    }

    @Override
    public ContextCustomizer createContextCustomizer(Class<?> test, List<ContextConfigurationAttributes> attributes) {
        ContextCustomizer ofContainer = HAS_CONTAINERS ? ContainerOfTest.customizer(test) : null;
        if (ofContainer != null) {
            return ofContainer;
        }
        return TestContextAnnotationUtils.hasAnnotation(test, MocketMqTest.class) ? new BrokerCustomizer() : null;
    }

    private static boolean isPresent(String name) {
        return ClassUtils.isPresent(name, BrokerCustomizerFactory.class.getClassLoader());
    }
}
