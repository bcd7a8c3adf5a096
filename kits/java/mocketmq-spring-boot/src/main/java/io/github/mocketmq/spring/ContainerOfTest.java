package io.github.mocketmq.spring;

import io.github.mocketmq.testcontainers.MocketMqContainer;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import org.springframework.boot.testcontainers.service.connection.ServiceConnection;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.TestContextAnnotationUtils;
import org.springframework.util.ReflectionUtils;

/**
 * Finds a test's container. It is looked for here because the starters decide by their properties, which have to be set
 * before Spring Boot asks for connection details.
 */
final class ContainerOfTest {
    private ContainerOfTest() {
    }

    /** Returns what connects a context to the static container of the test's class, a class above or around it, or null. */
    static ContextCustomizer customizer(Class<?> test) {
        for (Class<?> type = test; type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (isContainer(field)) {
                    ReflectionUtils.makeAccessible(field);
                    return customizer((MocketMqContainer) ReflectionUtils.getField(field, null));
                }
            }
        }
        return TestContextAnnotationUtils.searchEnclosingClass(test) ? customizer(test.getEnclosingClass()) : null;
    }

    private static boolean isContainer(Field field) {
        return MocketMqContainer.class.isAssignableFrom(field.getType()) && Modifier.isStatic(field.getModifiers())
            && AnnotatedElementUtils.hasAnnotation(field, ServiceConnection.class);
    }

    private static ContextCustomizer customizer(MocketMqContainer container) {
        return new BrokerCustomizer(container, () -> {
            container.start(); // does nothing if it runs
            return container.mocketMq();
        });
    }
}
