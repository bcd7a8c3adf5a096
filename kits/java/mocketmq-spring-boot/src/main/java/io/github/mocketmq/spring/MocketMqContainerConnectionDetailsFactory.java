package io.github.mocketmq.spring;

import io.github.mocketmq.testcontainers.MocketMqContainer;
import org.springframework.boot.testcontainers.service.connection.ContainerConnectionDetailsFactory;
import org.springframework.boot.testcontainers.service.connection.ContainerConnectionSource;

/** Makes the connection details that Spring Boot demands of every {@code @ServiceConnection}. */
final class MocketMqContainerConnectionDetailsFactory
        extends ContainerConnectionDetailsFactory<MocketMqContainer, MocketMqConnectionDetails> {
    @Override
    protected MocketMqConnectionDetails getContainerConnectionDetails(ContainerConnectionSource<MocketMqContainer> source) {
        return new Details(source);
    }

    private static final class Details extends ContainerConnectionDetails<MocketMqContainer>
            implements MocketMqConnectionDetails {
        Details(ContainerConnectionSource<MocketMqContainer> source) {
            super(source);
        }

        @Override
        public String nameServer() {
            return getContainer().nameServer();
        }

        @Override
        public String endpoints() {
            return getContainer().endpoints();
        }
    }
}
