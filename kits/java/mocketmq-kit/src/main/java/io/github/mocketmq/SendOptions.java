package io.github.mocketmq;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Options of a message that {@link MocketMq#send(String, String)} sends. */
public final class SendOptions {
    private final Map<String, Object> fields = new LinkedHashMap<>();
    private final List<String> keys = new ArrayList<>();
    private final Map<String, String> properties = new LinkedHashMap<>();

    SendOptions() {
    }

    /**
     * Sets the tag.
     *
     * @param tag the tag
     * @return this
     */
    public SendOptions tag(String tag) {
        return field("tag", tag);
    }

    /**
     * Adds a key.
     *
     * @param key the key, without spaces
     * @return this
     */
    public SendOptions key(String key) {
        keys.add(key);
        return field("keys", keys);
    }

    /**
     * Adds a property.
     *
     * @param name the name
     * @param value the value
     * @return this
     */
    public SendOptions property(String name, String value) {
        properties.put(name, value);
        return field("properties", properties);
    }

    /**
     * Delays the message by a delay level.
     *
     * @param level 1 for one second to 18 for two hours, unless the broker has other levels
     * @return this
     */
    public SendOptions delayLevel(int level) {
        return field("delay_level", level);
    }

    /**
     * Delays the message.
     *
     * @param by how long, in whole milliseconds
     * @return this
     */
    public SendOptions delay(Duration by) {
        return field("delay_ms", by.toMillis());
    }

    /**
     * Delays the message until an instant, as Aliyun's start-deliver time does.
     *
     * @param instant when to deliver it, in whole milliseconds
     * @return this
     */
    public SendOptions deliverAt(Instant instant) {
        return field("start_deliver_ms", instant.toEpochMilli());
    }

    SendOptions field(String name, Object value) {
        fields.put(name, value);
        return this;
    }

    Map<String, Object> fields() {
        return fields;
    }
}
