package io.github.mocketmq.testcontainers;

import io.github.mocketmq.MocketMq;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A RocketMQ broker in a container, whose clock stands still until a test moves it.
 *
 * <p>RocketMQ's clients ask the name server for the broker's address. The broker names 127.0.0.1 to clients on the
 * container's host and its own address to other containers, both with its own port. So the broker's port has to be the
 * same on both sides: each container picks a free one, and all other ports are mapped. Containers of the same network reach
 * the name server as {@code ALIAS:9876} and gRPC as {@code ALIAS:8081}.
 */
public class MocketMqContainer extends GenericContainer<MocketMqContainer> {
    static final int NAME_SERVER = 9876;
    static final int HTTP = 9877;
    static final int GRPC = 8081;

    private final int brokerPort = freePort();
    private final List<String> options = new ArrayList<>();

    /** Makes a container of this version's image, or of the one that the property {@code mocketmq.image} names. */
    public MocketMqContainer() {
        this(DockerImageName.parse(
            System.getProperty("mocketmq.image", "ghcr.io/mocketmq/mocketmq:0.1.0")));
    }

    /**
     * Makes a container of an image.
     *
     * @param image the image
     */
    public MocketMqContainer(DockerImageName image) {
        super(image);
        addFixedExposedPort(brokerPort, brokerPort);
        withExposedPorts(NAME_SERVER, HTTP, GRPC);
        withOptions();
        waitingFor(Wait.forHttp("/readyz").forPort(HTTP));
    }

    /**
     * Adds options of {@code mocketmq serve}.
     *
     * @param more options such as {@code "--clock", "real"}; of an option given twice, the last counts
     * @return this
     */
    public final MocketMqContainer withOptions(String... more) {
        options.addAll(List.of(more));
        List<String> command = new ArrayList<>(List.of("serve", "--host", "0.0.0.0", "--allowed-hosts", "*",
            "--data", ":memory:", "--clock", "manual", "--max-long-poll", "1s",
            "--broker-port", String.valueOf(brokerPort)));
        command.addAll(options);
        return withCommand(command.toArray(String[]::new));
    }

    /**
     * Returns the address for RocketMQ's remoting clients on the host.
     *
     * @return {@code host:port} of the name server
     */
    public String nameServer() {
        return getHost() + ":" + getMappedPort(NAME_SERVER);
    }

    /**
     * Returns the address for the gRPC clients of RocketMQ 5 on the host.
     *
     * @return {@code host:port}
     */
    public String endpoints() {
        return getHost() + ":" + getMappedPort(GRPC);
    }

    /**
     * Returns the address of the JSON API on the host.
     *
     * @return a URL
     */
    public String url() {
        return "http://" + getHost() + ":" + getMappedPort(HTTP);
    }

    /**
     * Returns the broker in this container, which runs.
     *
     * @return the broker; stopping it stops the container
     */
    public MocketMq mocketMq() {
        return MocketMq.of(new ContainerSource.InContainer(this));
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
