package io.github.mocketmq;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;

/** A running broker: its address, token, ports and output. Extend it only to implement a {@link BrokerSource}. */
public abstract class FoundBroker {
    /** Options of every broker for tests: nothing on disk, a clock that tests move, consumers that close in a second. */
    private static final List<String> ALWAYS =
        List.of("--data", ":memory:", "--clock", "manual", "--max-long-poll", "1s");

    private final String url;

    /**
     * Makes a broker at an address.
     *
     * @param url where its JSON API is
     */
    protected FoundBroker(String url) {
        this.url = url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
    }

    /** Returns the first broker that is there; {@link MocketMq#running()} names the order. */
    static FoundBroker find(List<String> more) {
        String url = System.getProperty("mocketmq.url", System.getenv("MOCKETMQ_URL"));
        if (url != null && !url.isBlank()) {
            return new GivenBroker(url);
        }
        List<String> options = new ArrayList<>(ALWAYS);
        options.addAll(more);
        Path program = Bundle.unpacked();
        if (program == null) {
            program = BrokerProcess.onPath();
        }
        if (program != null) {
            return BrokerProcess.start(program, options);
        }
        for (BrokerSource source : ServiceLoader.load(BrokerSource.class)) {
            FoundBroker broker = source.start(options);
            if (broker != null) {
                return broker;
            }
        }
        throw new BrokerException("no mocketmq found: add the dependency io.github.mocketmq:mocketmq-bundle-linux-x86_64"
            + " (on Linux x86-64), put mocketmq on the PATH, add io.github.mocketmq:mocketmq-testcontainers, or give the"
            + " address of a broker as MOCKETMQ_URL");
    }

    final String url() {
        return url;
    }

    /** The token that requests to the JSON API carry, or null. */
    String token() {
        return null;
    }

    /**
     * Returns the port at which this JVM reaches a listener of the broker.
     *
     * @param door {@code namesrv} or {@code grpc}
     * @param port the port at which the broker listens
     * @return the same port, unless a source maps it
     */
    protected int port(String door, int port) {
        return port;
    }

    /**
     * Returns whether the broker may still answer.
     *
     * @return false if it is known to have ended
     */
    protected abstract boolean isAlive();

    /**
     * Returns how the broker ended, with the last lines of its output.
     *
     * @return the lines
     */
    protected abstract String lastWords();

    /** Stops the broker, if it was started for this JVM. */
    protected abstract void stop();

    /** A broker that runs elsewhere, which this JVM did not start and does not stop. */
    private static final class GivenBroker extends FoundBroker {
        GivenBroker(String url) {
            super(url);
        }

        @Override
        String token() {
            return System.getenv("MOCKETMQ_TOKEN");
        }

        @Override
        protected boolean isAlive() {
            return true;
        }

        @Override
        protected String lastWords() {
            return "";
        }

        @Override
        protected void stop() {
            // This JVM did not start the broker.
        }
    }
}
