package io.github.mocketmq;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Messages that a test awaits or expects. Conditions, which the messages must all meet, are followed by a stage.
 *
 * <p>The stages {@link #sent()}, {@link #delivered()}, {@link #acknowledgedBy(String)}, {@link #dead()} and
 * {@link #deadOf(String)} wait, and return the messages or throw {@link AssertionError}.
 */
public final class Expectation {
    private static final int MOST = 1_000;

    private final JsonApi api;
    private final String topic;
    private final boolean isAssertion;
    private final Map<String, Object> asked = new LinkedHashMap<>();
    private final Map<String, String> properties = new LinkedHashMap<>();
    private final Map<String, Object> jsonPaths = new LinkedHashMap<>();
    private int count = -1;

    Expectation(JsonApi api, String topic, boolean isAssertion) {
        this.api = api;
        this.topic = topic;
        this.isAssertion = isAssertion;
        within(Duration.ofSeconds(5));
    }

    /**
     * Sets the number of messages. Without it, one is enough.
     *
     * @param count the exact number of expected messages, or the smallest number of awaited ones
     * @return this
     */
    public Expectation count(int count) {
        this.count = count;
        return this;
    }

    /**
     * Sets how long to wait. A count of 0 does not wait.
     *
     * @param wait real time, five seconds unless set
     * @return this
     */
    public Expectation within(Duration wait) {
        return with("timeout_ms", wait.toMillis());
    }

    /**
     * Moves the clock while waiting, to each instant that the messages wait for, such as their due times and retries.
     *
     * @param most the longest move in total, in whole milliseconds
     * @return this
     */
    public Expectation advancing(Duration most) {
        return with("advance", most.toMillis() + "ms");
    }

    /**
     * Requires a tag.
     *
     * @param tag the tag
     * @return this
     */
    public Expectation tag(String tag) {
        return with("tag", tag);
    }

    /**
     * Requires a key among the message's keys.
     *
     * @param key the key
     * @return this
     */
    public Expectation key(String key) {
        return with("key", key);
    }

    /**
     * Requires a message id.
     *
     * @param messageId the unique key that the client gave the message
     * @return this
     */
    public Expectation messageId(String messageId) {
        return with("message_id", messageId);
    }

    /**
     * Requires a property. The message may have others, too.
     *
     * @param name the name
     * @param value the value
     * @return this
     */
    public Expectation property(String name, String value) {
        properties.put(name, value);
        return with("properties", properties);
    }

    /**
     * Requires a body.
     *
     * @param body the whole body, as text
     * @return this
     */
    public Expectation body(String body) {
        return with("body", body);
    }

    /**
     * Requires a body of bytes.
     *
     * @param body the whole body
     * @return this
     */
    public Expectation body(byte[] body) {
        return with("body_base64", Json.base64(body));
    }

    /**
     * Requires a value in a JSON body.
     *
     * @param path where the value is, such as {@code $.order.lines[0].sku}
     * @param value a string, number, boolean, list or map
     * @return this
     */
    public Expectation json(String path, Object value) {
        jsonPaths.put(path, value);
        return with("json_path", jsonPaths);
    }

    /**
     * Requires that the message was delayed, or was not delayed.
     *
     * @param isDelayed whether it was delayed
     * @return this
     */
    public Expectation delayed(boolean isDelayed) {
        return with("delayed", isDelayed);
    }

    /**
     * Requires a delay level.
     *
     * @param level the level
     * @return this
     */
    public Expectation delayLevel(int level) {
        return with("delay_level", level);
    }

    /**
     * Waits until producers have sent the messages, delayed or not.
     *
     * @return the messages
     */
    public List<SentMessage> sent() {
        return reached("sent");
    }

    /**
     * Waits until consumers can get the messages, delayed ones after their due times.
     *
     * @return the messages
     */
    public List<SentMessage> delivered() {
        return reached("delivered");
    }

    /**
     * Waits until a consumer group has acknowledged the messages. RocketMQ's remoting clients commit what they have
     * consumed every five seconds.
     *
     * @param group the consumer group
     * @return the messages
     */
    public List<SentMessage> acknowledgedBy(String group) {
        return with("group", group).reached("acknowledged");
    }

    /**
     * Waits until the messages are dead letters of any group.
     *
     * @return the messages
     */
    public List<SentMessage> dead() {
        return reached("dead");
    }

    /**
     * Waits until the messages are dead letters of a consumer group.
     *
     * @param group the consumer group
     * @return the messages
     */
    public List<SentMessage> deadOf(String group) {
        return with("group", group).reached("dead");
    }

    Expectation with(String name, Object value) {
        asked.put(name, value);
        return this;
    }

    private List<SentMessage> reached(String stage) {
        with(stage, count < 0 ? 1 : count).with("max", MOST);
        if (isAssertion) {
            with("expected", true).with("exactly", count >= 0);
        }
        Map<String, Object> answer = api.post(JsonApi.path("topics", topic, "wait"), asked);
        if (!Boolean.TRUE.equals(answer.get("reached"))) {
            throw new AssertionError(answer.get("explanation"));
        }
        return SentMessage.list(answer);
    }
}
