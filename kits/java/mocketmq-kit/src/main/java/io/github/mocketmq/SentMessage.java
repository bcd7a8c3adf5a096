package io.github.mocketmq;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** A message that a producer sent, and its state when the broker was asked. */
public final class SentMessage {
    private final Map<String, Object> fields;

    private SentMessage(Map<String, Object> fields) {
        this.fields = fields;
    }

    @SuppressWarnings("unchecked")
    static List<SentMessage> list(Map<String, Object> answer) {
        List<SentMessage> messages = new ArrayList<>();
        for (Object fields : (List<?>) answer.get("messages")) {
            messages.add(new SentMessage((Map<String, Object>) fields));
        }
        return Collections.unmodifiableList(messages);
    }

    /**
     * Returns the message id.
     *
     * @return the unique key that the client gave the message
     */
    public String messageId() {
        return (String) fields.get("message_id");
    }

    /**
     * Returns the topic.
     *
     * @return the topic that the producer named
     */
    public String topic() {
        return (String) fields.get("topic");
    }

    /**
     * Returns the tag.
     *
     * @return the tag, or null if there is none
     */
    public String tag() {
        return (String) fields.get("tag");
    }

    /**
     * Returns the keys.
     *
     * @return the keys, in the producer's order
     */
    @SuppressWarnings("unchecked")
    public List<String> keys() {
        return (List<String>) fields.get("keys");
    }

    /**
     * Returns the properties.
     *
     * @return all properties, those of RocketMQ too
     */
    @SuppressWarnings("unchecked")
    public Map<String, String> properties() {
        return (Map<String, String>) fields.get("properties");
    }

    /**
     * Returns the body as text.
     *
     * @return the body, decoded as UTF-8
     */
    public String body() {
        Object text = fields.get("body");
        return text == null ? new String(bytes(), StandardCharsets.UTF_8) : (String) text;
    }

    /**
     * Returns the body.
     *
     * @return the bytes that the producer sent
     */
    public byte[] bytes() {
        Object text = fields.get("body");
        return text == null
            ? Base64.getDecoder().decode((String) fields.get("body_base64"))
            : ((String) text).getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Returns the state, such as {@code pending} before the due time and {@code delivered} afterwards.
     *
     * @return the state's name in the JSON API
     */
    public String state() {
        return (String) fields.get("state");
    }

    /**
     * Returns the delay level.
     *
     * @return the level, or 0 if the message has none
     */
    public int delayLevel() {
        return ((Number) fields.get("delay_level")).intValue();
    }

    /**
     * Returns the due time.
     *
     * @return when the message is to be delivered, or null if it is not delayed
     */
    public Instant due() {
        Number due = (Number) fields.get("due_ms");
        return due == null ? null : Instant.ofEpochMilli(due.longValue());
    }

    /**
     * Returns all fields, by their names in the JSON API.
     *
     * @return the fields
     */
    public Map<String, Object> fields() {
        return Collections.unmodifiableMap(fields);
    }

    @Override
    public String toString() {
        return String.valueOf(fields.get("text"));
    }
}
