package io.github.mocketmq.junit5;

import io.github.mocketmq.BrokerException;
import io.github.mocketmq.MocketMq;
import java.util.ServiceLoader;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.platform.commons.support.AnnotationSupport;
import org.opentest4j.TestAbortedException;

/** The extension behind {@link MocketMqTest}. Without the annotation, register it with {@code @ExtendWith}. */
public final class MocketMqExtension implements BeforeEachCallback, ParameterResolver, TestExecutionExceptionHandler,
        LifecycleMethodExecutionExceptionHandler {
    /** Makes the extension, for JUnit. */
    public MocketMqExtension() {
    }

    /** Resets the broker, or restores a snapshot, and creates the topics of the test. */
    @Override
    public void beforeEach(ExtensionContext context) {
        MocketMq mq = broker(context);
        MocketMqTest wanted = wanted(context);
        if (wanted != null && !wanted.snapshot().isEmpty()) {
            mq.restoreSnapshot(wanted.snapshot());
        } else if (wanted != null && wanted.forget()) {
            mq.forget();
        } else {
            mq.reset();
        }
        if (wanted != null) {
            for (String topic : wanted.topics()) {
                mq.createTopic(topic);
            }
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == MocketMq.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return broker(context);
    }

    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw withStory(context, failure);
    }

    @Override
    public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw withStory(context, failure);
    }

    @Override
    public void handleAfterEachMethodExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        throw withStory(context, failure);
    }

    private static Throwable withStory(ExtensionContext context, Throwable failure) {
        if (!(failure instanceof TestAbortedException)) {
            try {
                failure.addSuppressed(new BrokerStory(broker(context).story()));
            } catch (BrokerException error) {
                failure.addSuppressed(error);
            }
        }
        return failure;
    }

    private static MocketMqTest wanted(ExtensionContext context) {
        return AnnotationSupport.findAnnotation(context.getElement(), MocketMqTest.class)
            .or(() -> AnnotationSupport.findAnnotation(context.getTestClass(), MocketMqTest.class))
            .orElse(null);
    }

    private static MocketMq broker(ExtensionContext context) {
        for (BrokerOfTest found : ServiceLoader.load(BrokerOfTest.class)) {
            MocketMq mq = found.of(context);
            if (mq != null) {
                return mq;
            }
        }
        return MocketMq.running();
    }
}
