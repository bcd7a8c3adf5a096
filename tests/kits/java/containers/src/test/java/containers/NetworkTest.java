package containers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.mocketmq.testcontainers.MocketMqContainer;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.startupcheck.OneShotStartupCheckStrategy;
import org.testcontainers.lifecycle.Startables;

class NetworkTest {
    private static final Duration MOST = Duration.ofMinutes(5);

    /** A probe sends delayed messages and receives them, over RocketMQ's TCP protocol and over gRPC. */
    @Test
    void anotherContainerReachesTheBroker() {
        try (Network network = Network.newNetwork();
             MocketMqContainer broker = new MocketMqContainer().withOptions("--clock", "real")
                 .withNetwork(network).withNetworkAliases("rocketmq")) {
            broker.start();
            probe(network, broker, "--name-server", "rocketmq:9876", "--levels", "1");
            probe(network, broker, "--grpc", "rocketmq:8081", "--delays", "1s");
            broker.mocketMq().expect("mocketmq-probe").delayed(true).count(6).acknowledgedBy("mocketmq-probe");
        }
    }

    private static void probe(Network network, MocketMqContainer broker, String... at) {
        String[] command = Stream.concat(Stream.of("probe", "--count", "3", "--out", "/tmp/probe.csv"), Stream.of(at))
            .toArray(String[]::new);
        try (GenericContainer<?> probe = new GenericContainer<>(broker.getDockerImageName()).withNetwork(network)
                .withCommand(command).withStartupCheckStrategy(new OneShotStartupCheckStrategy().withTimeout(MOST))) {
            probe.start();
        }
    }

    @Test
    void manyContainersRunAtOnce() {
        List<MocketMqContainer> brokers =
            Stream.generate(MocketMqContainer::new).limit(4).collect(Collectors.toList());
        Startables.deepStart(brokers).join();
        try {
            for (MocketMqContainer broker : brokers) {
                broker.mocketMq().send("orders", broker.nameServer());
            }
            for (MocketMqContainer broker : brokers) {
                broker.mocketMq().expect("orders").count(1).body(broker.nameServer()).sent();
            }
            assertEquals(4, brokers.stream().map(MocketMqContainer::nameServer).distinct().count());
        } finally {
            brokers.forEach(MocketMqContainer::stop);
        }
    }
}
