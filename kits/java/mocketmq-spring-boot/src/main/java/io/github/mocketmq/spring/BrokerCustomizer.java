package io.github.mocketmq.spring;

import io.github.mocketmq.MocketMq;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.MergedContextConfiguration;

/**
 * Starts a broker for an application context, as its bean {@code mocketMq}, and sets the addresses of the starters.
 *
 * <p>Each context has a broker of its own. Spring caches contexts, whose consumers go on: with one broker for all, they
 * would take the messages of other contexts' tests.
 */
final class BrokerCustomizer implements ContextCustomizer {
    private static final String BEAN = "mocketMq";

    private final Object container;
    private final Supplier<MocketMq> broker;

    /** A broker that is started for the context, and ends with it. */
    BrokerCustomizer() {
        this(null, MocketMq::start);
    }

    /** The broker of a container, which does not end with the context. */
    BrokerCustomizer(Object container, Supplier<MocketMq> broker) {
        this.container = container;
        this.broker = broker;
    }

    @Override
    public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration configuration) {
        MocketMq mq = broker.get();
        DefaultListableBeanFactory beans = (DefaultListableBeanFactory) context.getBeanFactory();
        beans.registerSingleton(BEAN, mq);
        if (container == null) {
            beans.registerDisposableBean(BEAN, mq::close); // registered first, destroyed last: after the clients
        }
        ConfigurableEnvironment environment = context.getEnvironment();
        environment.getPropertySources().addFirst(new MapPropertySource("mocketmq", addresses(mq, environment)));
    }

    /**
     * The name server is for the starter of RocketMQ 4's clients and for Spring Cloud Stream's binder. The starter of
     * RocketMQ 5's makes a client for each part with endpoints, so only those parts get some that the application configures.
     */
    private static Map<String, Object> addresses(MocketMq mq, ConfigurableEnvironment environment) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("rocketmq.name-server", mq.nameServer());
        found.put("spring.cloud.stream.rocketmq.binder.name-server", mq.nameServer());
        for (String part : new String[] {"producer", "simple-consumer", "push-consumer"}) {
            String name = "rocketmq." + part + ".endpoints";
            if (environment.containsProperty(name)) {
                found.put(name, mq.endpoints());
            }
        }
        return found;
    }

    /** Equal customizers let Spring share a context. */
    @Override
    public boolean equals(Object other) {
        return other instanceof BrokerCustomizer && container == ((BrokerCustomizer) other).container;
    }

    @Override
    public int hashCode() {
        return System.identityHashCode(container);
    }
}
