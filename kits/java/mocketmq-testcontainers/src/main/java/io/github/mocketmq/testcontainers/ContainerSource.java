package io.github.mocketmq.testcontainers;

import io.github.mocketmq.BrokerSource;
import io.github.mocketmq.FoundBroker;
import java.util.List;
import org.testcontainers.DockerClientFactory;

/** Starts the broker in a container where Docker answers. */
public final class ContainerSource implements BrokerSource {
    /** Makes the source, for {@link java.util.ServiceLoader}. */
    public ContainerSource() {
    }

    @Override
    public FoundBroker start(List<String> options) {
        if (!DockerClientFactory.instance().isDockerAvailable()) {
            return null;
        }
        MocketMqContainer container = new MocketMqContainer().withOptions(options.toArray(String[]::new));
        container.start();
        return new InContainer(container);
    }

    /** A broker in a container that runs. */
    static final class InContainer extends FoundBroker {
        private final MocketMqContainer container;

        InContainer(MocketMqContainer container) {
            super(container.url());
            this.container = container;
        }

        @Override
        protected int port(String door, int port) {
            return container.getMappedPort(port);
        }

        @Override
        protected boolean isAlive() {
            return container.isRunning();
        }

        @Override
        protected String lastWords() {
            return "the broker's container ended; its output:\n" + container.getLogs();
        }

        @Override
        protected void stop() {
            container.stop();
        }
    }
}
