package io.github.mocketmq;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/**
 * A RocketMQ broker for tests. Its clock stands still until a test moves it.
 *
 * <p>The broker runs in a process of its own. RocketMQ's clients connect to {@link #nameServer()} or {@link #endpoints()};
 * all other methods use the JSON API. Objects of this class may be used by several threads.
 *
 * <p>A failed request throws {@link BrokerException}, a failed expectation {@link AssertionError}.
 */
public final class MocketMq implements AutoCloseable {
    private static final int LAST_EVENTS = 40;
    private static final int LONGEST_TEST = 1_000;
    private static final int LONGEST_FAILURE = 200_000;
    private static final DateTimeFormatter EVENT_TIME =
        DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS").withZone(ZoneOffset.UTC);

    private static MocketMq running;
    private static BrokerException notFound;

    private final FoundBroker found;
    private final JsonApi api;
    private final Map<?, ?> doors;

    private MocketMq(FoundBroker found) {
        this.found = found;
        this.api = new JsonApi(found.url(), found.token());
        try {
            this.doors = (Map<?, ?>) Json.parse(api.request("GET", "/v1/info", null)).get("doors");
        } catch (BrokerException error) {
            found.stop();
            throw error;
        }
    }

    /**
     * Returns the broker that all tests of this JVM share. The first call finds or starts it.
     *
     * <p>The first of these is taken: a broker at the system property {@code mocketmq.url} or the variable
     * {@code MOCKETMQ_URL}; the bundle of {@code mocketmq-bundle-linux-x86_64}; {@code mocketmq} on the {@code PATH}; a
     * {@link BrokerSource}, such as that of {@code mocketmq-testcontainers}.
     *
     * @return the broker, which ends with this JVM
     */
    public static synchronized MocketMq running() {
        if (notFound != null) {
            throw notFound; // each test would wait for it again
        }
        if (running == null || !running.found.isAlive()) {
            try {
                running = start();
            } catch (BrokerException error) {
                notFound = error;
                throw error;
            }
        }
        return running;
    }

    /**
     * Starts another broker, for a test that needs one of its own. If an address is given, returns the broker there.
     *
     * @param options further options of {@code mocketmq serve}, such as {@code "--profile", "rocketmq4"}
     * @return the broker, to be closed by the caller
     */
    public static MocketMq start(String... options) {
        return of(FoundBroker.find(List.of(options)));
    }

    /**
     * Returns a broker that a source has started.
     *
     * @param found the broker
     * @return the broker, to be closed by the caller
     */
    public static MocketMq of(FoundBroker found) {
        return new MocketMq(found);
    }

    /** Stops the broker, unless it was found at an address. The end of the JVM stops it, too. */
    public void stop() {
        found.stop();
    }

    /** The same as {@link #stop()}, for {@code try (…)}. */
    @Override
    public void close() {
        stop();
    }

    /** Removes messages, offsets, injected faults and expectations, and sets the clock back to its start. */
    public void reset() {
        api.post("/v1/reset", Map.of("clock", "start"));
    }

    /**
     * Resets the broker, and forgets topics and groups as well, as if it were new.
     *
     * <p>Topics and groups that connected clients consume stay.
     */
    public void forget() {
        api.post("/v1/reset", Map.of("clock", "start", "forget", true));
    }

    /**
     * Saves the broker's whole state under a name. A snapshot that has the name is replaced.
     *
     * @param name letters, digits, {@code -}, {@code _} and {@code .}
     */
    public void saveSnapshot(String name) {
        api.post("/v1/snapshots", Map.of("name", name, "replace", true));
    }

    /**
     * Goes back to a snapshot. Clients stay connected.
     *
     * @param name of a snapshot that was saved before, or is in the directory of {@code --snapshots}
     */
    public void restoreSnapshot(String name) {
        api.post(JsonApi.path("snapshots", name) + "/restore", Map.of());
    }

    /**
     * Writes the broker's state and recent events into a file, which {@code mocketmq open} shows on any machine.
     *
     * @param file an existing one is replaced
     * @param test the test that failed, or an empty text
     * @param failure what failed, such as a stack trace, or an empty text
     * @throws UncheckedIOException if the file cannot be written
     */
    public void pack(Path file, String test, String failure) {
        Map<String, String> told = Map.of(
            "test", test.substring(0, Math.min(test.length(), LONGEST_TEST)),
            "failure", failure.substring(Math.max(failure.length() - LONGEST_FAILURE, 0)));
        byte[] content = api.bytes("POST", "/v1/pack", Json.write(told));
        // The file is whole or absent, even after a kill.
        Path temporary = file.resolveSibling(file.getFileName() + "." + ProcessHandle.current().pid() + ".tmp");
        try {
            Files.write(temporary, content);
            Files.move(temporary, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * Moves the clock forward. On return, every message that became due on the way has been delivered.
     *
     * @param by how far, in whole microseconds
     */
    public void advance(Duration by) {
        api.post("/v1/clock/advance", Map.of("by", Json.duration(by)));
    }

    /**
     * Returns the broker's time.
     *
     * @return the instant at which its clock stands
     */
    public Instant now() {
        return Instant.ofEpochMilli(((Number) api.get("/v1/clock").get("now_ms")).longValue());
    }

    /**
     * Creates a topic with four queues, unless it exists. Topics are also created by their first message.
     *
     * @param name the topic
     */
    public void createTopic(String name) {
        api.request("PUT", JsonApi.path("topics", name), Json.write(Map.of()));
    }

    /**
     * Sends a message.
     *
     * @param topic the topic
     * @param body the body, as text
     * @return the message id
     */
    public String send(String topic, String body) {
        return send(topic, body, options -> options);
    }

    /**
     * Sends a message with options, as in {@code send("orders", "order 7", it -> it.tag("paid").key("7"))}.
     *
     * @param topic the topic
     * @param body the body, as text
     * @param options sets tag, keys, properties and delay
     * @return the message id
     */
    public String send(String topic, String body, UnaryOperator<SendOptions> options) {
        return send(topic, options.apply(new SendOptions().field("body", body)));
    }

    /**
     * Sends a message of bytes.
     *
     * @param topic the topic
     * @param body the body
     * @param options sets tag, keys, properties and delay
     * @return the message id
     */
    public String send(String topic, byte[] body, UnaryOperator<SendOptions> options) {
        return send(topic, options.apply(new SendOptions().field("body_base64", Json.base64(body))));
    }

    private String send(String topic, SendOptions message) {
        return (String) api.post(JsonApi.path("topics", topic, "messages"), message.fields()).get("message_id");
    }

    /**
     * Returns the newest 100 messages that producers sent to the topic since the reset, delayed or not, oldest first.
     *
     * @param topic the topic
     * @return the messages
     */
    public List<SentMessage> sent(String topic) {
        return SentMessage.list(api.post(JsonApi.path("topics", topic, "sent"), Map.of()));
    }

    /**
     * Waits for messages, as in {@code await("orders").key("7").acknowledgedBy("billing")}.
     *
     * <p>The wait ends as soon as at least {@link Expectation#count(int)} messages are there. After
     * {@link Expectation#within(Duration)} it fails with an explanation.
     *
     * @param topic the topic
     * @return what is awaited, to be completed by a stage
     */
    public Expectation await(String topic) {
        return new Expectation(api, topic, false);
    }

    /**
     * Asserts that messages are there, as in {@code expect("orders").count(1).tag("paid").sent()}.
     *
     * <p>Waits like {@link #await(String)}, but {@link Expectation#count(int)} is exact. Messages that were found are
     * expected, and {@link #expectNothingElse()} ignores them.
     *
     * @param topic the topic
     * @return what is expected, to be completed by a stage
     */
    public Expectation expect(String topic) {
        return new Expectation(api, topic, true);
    }

    /** Asserts that {@link #expect(String)} has found every message that was sent since the reset. */
    public void expectNothingElse() {
        Map<String, Object> answer = api.get("/v1/unexpected");
        if (((Number) answer.get("count")).longValue() != 0) {
            throw new AssertionError(answer.get("explanation"));
        }
    }

    /**
     * Returns the injected faults.
     *
     * @return a view on the rules of the broker
     */
    public Faults faults() {
        return new Faults(api);
    }

    /**
     * Lists the brokers of the cluster, {@code broker-a} first.
     *
     * @return their states, by their names in the JSON API: {@code name}, {@code state}, {@code in_routes}, …
     */
    @SuppressWarnings("unchecked")
    public List<Map<String, Object>> brokers() {
        return (List<Map<String, Object>>) api.get("/v1/brokers").get("brokers");
    }

    /**
     * Ends a broker's connections and closes its ports. Routes name it for another 120 s of its clock.
     *
     * @param name such as {@code broker-b}
     * @return how many messages the broker has lost: none, unless its setting {@code crash_loses} says otherwise
     */
    public int crashBroker(String name) {
        return crash(name, Map.of());
    }

    /**
     * Crashes a broker like {@link #crashBroker(String)}, and says what it loses.
     *
     * @param name such as {@code broker-b}
     * @param loses {@code "200ms"}: what it stored in this last time of its clock; {@code "nothing"}; or
     *     {@code "unreplicated"}: what its slave does not have yet
     * @return how many messages the broker has lost
     */
    public int crashBroker(String name, String loses) {
        return crash(name, Map.of("loses", loses));
    }

    private int crash(String name, Map<String, Object> how) {
        return ((Number) api.post(JsonApi.path("brokers", name, "crash"), how).get("lost")).intValue();
    }

    /**
     * Shuts a broker down, which takes it out of all routes at once.
     *
     * @param name such as {@code broker-b}
     */
    public void shutDownBroker(String name) {
        changeBroker(name, "shutdown");
    }

    /**
     * Makes the slave of a broker its master. The old master becomes the slave, at once if it runs,
     * otherwise when it starts.
     *
     * @param name such as {@code broker-b}
     */
    public void promoteSlave(String name) {
        changeBroker(name, "promote");
    }

    /**
     * Starts a broker again, which delivers what became due while it was down.
     *
     * @param name such as {@code broker-b}
     */
    public void startBroker(String name) {
        changeBroker(name, "start");
    }

    /**
     * Deletes all messages and offsets of a broker that is down, as if its disk were lost.
     *
     * @param name such as {@code broker-b}
     */
    public void wipeBroker(String name) {
        changeBroker(name, "wipe");
    }

    /**
     * Cuts a broker off, until {@link #reconnectBroker(String)}.
     *
     * @param name such as {@code broker-b}
     * @param from its clients or the name servers
     */
    public void cutOffBroker(String name, CutOff from) {
        changeBroker(name, "cut-off-from-" + from.side);
    }

    /**
     * Reconnects a broker that is cut off.
     *
     * @param name such as {@code broker-b}
     */
    public void reconnectBroker(String name) {
        changeBroker(name, "reconnect");
    }

    /**
     * Makes a broker read-only, or writable again. Routes say so at once.
     *
     * @param name such as {@code broker-b}
     * @param readOnly whether the broker refuses sends
     */
    public void setBrokerReadOnly(String name, boolean readOnly) {
        changeBroker(name, readOnly ? "read-only" : "writable");
    }

    private void changeBroker(String name, String action) {
        api.request("POST", JsonApi.path("brokers", name, action), null);
    }

    /**
     * Returns the broker's newest 40 events since the reset, one per line, oldest first; or how the broker died.
     *
     * @return the lines
     */
    public String story() {
        if (!found.isAlive()) {
            return found.lastWords();
        }
        List<String> lines = new ArrayList<>();
        for (Object event : (List<?>) api.get("/v1/events?max=" + LAST_EVENTS).get("events")) {
            Map<?, ?> fields = (Map<?, ?>) event;
            long at = ((Number) fields.get("at_ms")).longValue();
            lines.add(EVENT_TIME.format(Instant.ofEpochMilli(at)) + " " + fields.get("text"));
        }
        return lines.isEmpty() ? "the broker recorded no events" : String.join("\n", lines);
    }

    /**
     * Returns the address for RocketMQ's remoting clients.
     *
     * @return {@code host:port} of the name server; of several, with semicolons between
     */
    public String nameServer() {
        if (!(doors.get("name_servers") instanceof List)) {
            return address("namesrv", doors.get("namesrv"));
        }
        List<String> addresses = new ArrayList<>();
        for (Object each : (List<?>) doors.get("name_servers")) {
            addresses.add(address("namesrv", each));
        }
        return String.join(";", addresses);
    }

    /**
     * Returns the address for the gRPC clients of RocketMQ 5.
     *
     * @return {@code host:port}
     */
    public String endpoints() {
        return address("grpc", doors.get("grpc"));
    }

    /**
     * Returns the address of the JSON API and of Aliyun's HTTP protocol.
     *
     * @return a URL such as {@code http://127.0.0.1:9877}
     */
    public String url() {
        return found.url();
    }

    /**
     * Makes a request of the JSON API, for which this class has no method.
     *
     * @param method {@code GET}, {@code POST}, {@code PUT} or {@code DELETE}
     * @param path path and query, such as {@code /v1/groups/billing}
     * @param body strings, numbers, booleans, lists and maps of these; null for none
     * @return the answer's JSON object, with whole numbers as {@link Long}
     */
    public Map<String, Object> call(String method, String path, Map<String, ?> body) {
        return Json.parse(api.request(method, path, body == null ? null : Json.write(body)));
    }

    /** The port is the broker's own, or the one that the source of the broker maps to it. */
    private String address(String door, Object open) {
        if (!(open instanceof Map)) {
            throw new IllegalStateException("the broker at " + url() + " has no " + door + "; it has " + doors.keySet());
        }
        int port = ((Number) ((Map<?, ?>) open).get("port")).intValue();
        return URI.create(url()).getHost() + ":" + found.port(door, port);
    }

    @Override
    public String toString() {
        return "mocketmq at " + url();
    }
}
