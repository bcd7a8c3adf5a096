package io.github.mocketmq.spring;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.BrokerOfTest;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.springframework.test.context.BootstrapWith;
import org.springframework.test.context.ContextConfiguration;
import org.springframework.test.context.TestContextAnnotationUtils;
import org.springframework.test.context.junit.jupiter.SpringExtension;

/** The broker of the test's application context. */
public final class BrokerOfContext implements BrokerOfTest {
    /** Makes it, for {@link java.util.ServiceLoader}. */
    public BrokerOfContext() {
    }

    @Override
    public MocketMq of(ExtensionContext context) {
        Class<?> test = context.getRequiredTestClass();
        boolean isOfSpring = TestContextAnnotationUtils.hasAnnotation(test, BootstrapWith.class)
            || TestContextAnnotationUtils.hasAnnotation(test, ContextConfiguration.class);
        return isOfSpring
            ? SpringExtension.getApplicationContext(context).getBeanProvider(MocketMq.class).getIfAvailable()
            : null;
    }
}
