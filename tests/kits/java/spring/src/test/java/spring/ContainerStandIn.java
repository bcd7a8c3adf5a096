package spring;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.testcontainers.MocketMqContainer;
import java.net.URI;

/** Stands in for a container where there is no Docker: its ports are mapped to those of a broker in a process. */
class ContainerStandIn extends MocketMqContainer {
    private MocketMq mq;

    @Override
    public void start() {
        if (mq == null) {
            mq = MocketMq.start();
        }
    }

    @Override
    public void stop() {
        mq.stop();
    }

    @Override
    public boolean isRunning() {
        return mq != null;
    }

    @Override
    public String getDockerImageName() {
        return "mocketmq";
    }

    @Override
    public String getHost() {
        return "127.0.0.1";
    }

    @Override
    public Integer getMappedPort(int port) {
        String address = switch (port) {
            case 9876 -> "//" + mq.nameServer();
            case 8081 -> "//" + mq.endpoints();
            case 9877 -> mq.url();
            default -> "//127.0.0.1:" + port; // the process's own, as it reports it
        };
        return URI.create(address).getPort();
    }
}
