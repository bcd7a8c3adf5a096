package io.github.mocketmq.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.github.mocketmq.BrokerSource;
import java.util.List;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;
import org.testcontainers.utility.DockerImageName;

/** A container that is not started. */
class MocketMqContainerTest {
    private static MocketMqContainer container() {
        return new MocketMqContainer(DockerImageName.parse("mocketmq:test"));
    }

    @Test
    void theBrokerListensAtTheSamePortOnBothSides() {
        MocketMqContainer container = container();
        List<String> command = List.of(container.getCommandParts());
        String port = command.get(command.indexOf("--broker-port") + 1);
        assertEquals(List.of(port + ":" + port + "/tcp"), container.getPortBindings());
        assertEquals(List.of(9876, 9877, 8081), container.getExposedPorts().subList(0, 3));
    }

    @Test
    void eachContainerHasAPortOfItsOwn() {
        assertNotEquals(container().getPortBindings(), container().getPortBindings());
    }

    @Test
    void optionsComeLast() {
        String[] command = container().withOptions("--clock", "real").withOptions("--levels", "1s 5s").getCommandParts();
        List<String> last = List.of(command).subList(command.length - 4, command.length);
        assertEquals(List.of("--clock", "real", "--levels", "1s 5s"), last);
    }

    @Test
    void theKitFindsTheSource() {
        BrokerSource source = ServiceLoader.load(BrokerSource.class).findFirst().orElseThrow();
        assertEquals(ContainerSource.class, source.getClass());
    }
}
