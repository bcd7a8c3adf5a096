package kit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.mocketmq.BrokerException;
import io.github.mocketmq.CutOff;
import io.github.mocketmq.Expectation;
import io.github.mocketmq.MocketMq;
import io.github.mocketmq.SendOptions;
import io.github.mocketmq.SentMessage;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Runs the steps of a scenario by the kit's words; docs/kits.md says what a step is. */
@SuppressWarnings("unchecked")
final class Scenario {
    private final MocketMq mq;
    private final Map<String, Object> saved = new HashMap<>();
    private Instant began;

    Scenario(MocketMq mq) {
        this.mq = mq;
    }

    void run(List<Map<String, Object>> steps) throws IOException {
        mq.reset();
        began = mq.now();
        for (Map<String, Object> step : steps) {
            Map<String, String> fails = (Map<String, String>) step.get("fails");
            if (fails == null) {
                take(step);
            } else {
                Class<? extends Throwable> error =
                    fails.get("by").equals("assertion") ? AssertionError.class : BrokerException.class;
                Throwable failure = assertThrows(error, () -> take(step));
                assertTrue(failure.getMessage().contains(fails.get("with")), failure.getMessage());
            }
        }
    }

    private void pack(String test, String failure) throws IOException {
        Path place = Files.createTempDirectory("mocketmq-pack");
        Path file = place.resolve("failed.mocketmq");
        try {
            mq.pack(file, test, failure);
            assertEquals("PK", new String(Files.readAllBytes(file), 0, 2, StandardCharsets.ISO_8859_1));
        } finally {
            Files.deleteIfExists(file);
        }
        Files.delete(place); // which is empty: no other file was left
    }

    private void take(Map<String, Object> step) throws IOException {
        String topic = (String) step.get("topic");
        String name = (String) step.get("name");
        switch ((String) step.get("do")) {
            case "send" -> mq.send(topic, (String) step.get("body"), it -> with(it, map(step, "options")));
            case "sent" -> {
                List<SentMessage> messages = mq.sent(topic);
                assertEquals(step.get("count"), messages.size());
                map(step, "first").forEach((field, value) -> assertEquals(value, field(messages.get(0), field)));
            }
            case "advance" -> mq.advance(millis(step.get("by_ms")));
            case "now" -> assertEquals(millis(step.get("since_reset_ms")), Duration.between(began, mq.now()));
            case "reset" -> mq.reset();
            case "saveSnapshot" -> mq.saveSnapshot(name);
            case "restoreSnapshot" -> mq.restoreSnapshot(name);
            case "pack" -> pack((String) step.get("test"), (String) step.get("failure"));
            case "await" -> reach(mq.await(topic), step);
            case "expect" -> reach(mq.expect(topic), step);
            case "expectNothingElse" -> mq.expectNothingElse();
            case "faults.add" -> {
                Map<String, Object> rule = new LinkedHashMap<>(map(step, "rule"));
                mq.faults().add((String) rule.remove("do"), rule);
            }
            case "faults.list" -> assertEquals(step.get("count"), mq.faults().list().size());
            case "faults.remove" -> mq.faults().remove(name);
            case "faults.clear" -> mq.faults().clear();
            case "brokers" -> {
                List<Map<String, Object>> brokers = mq.brokers();
                assertEquals(step.get("count"), brokers.size());
                map(step, "first").forEach((field, value) -> assertEquals(whole(value), brokers.get(0).get(field)));
            }
            case "crashBroker" -> {
                String loses = (String) step.get("loses");
                int lost = loses == null ? mq.crashBroker(name) : mq.crashBroker(name, loses);
                assertEquals(step.getOrDefault("lost", lost), lost);
            }
            case "promoteSlave" -> mq.promoteSlave(name);
            case "shutDownBroker" -> mq.shutDownBroker(name);
            case "startBroker" -> mq.startBroker(name);
            case "wipeBroker" -> mq.wipeBroker(name);
            case "cutOffBroker" ->
                mq.cutOffBroker(name, step.get("side").equals("clients") ? CutOff.CLIENTS : CutOff.NAME_SERVERS);
            case "reconnectBroker" -> mq.reconnectBroker(name);
            case "setBrokerReadOnly" -> mq.setBrokerReadOnly(name, (boolean) step.get("read_only"));
            case "story" -> {
                int at = 0;
                for (String text : (List<String>) step.get("has")) {
                    at = mq.story().indexOf(text, at);
                    assertTrue(at >= 0, () -> text + " is not in " + mq.story());
                }
            }
            case "call" -> call(step);
            case "addresses" -> {
                String[] nameServers = mq.nameServer().split(";");
                assertEquals(step.get("count"), Set.of(nameServers).size());
                for (String nameServer : nameServers) {
                    connect("//" + nameServer);
                }
                connect("//" + mq.endpoints());
                connect(mq.url());
            }
            default -> throw new IllegalArgumentException("no such step: " + step);
        }
    }

    private void call(Map<String, Object> step) {
        Map<String, Object> body = step.containsKey("body") ? (Map<String, Object>) filled(step.get("body")) : null;
        Map<String, Object> answer = mq.call((String) step.get("method"), (String) step.get("path"), body);
        map(step, "answer").forEach((name, value) -> assertEquals(value, answer.get(name)));
        map(step, "save").forEach((name, path) -> {
            Object found = answer;
            for (Object part : (List<Object>) path) {
                found = part instanceof Integer index ? ((List<?>) found).get(index) : ((Map<?, ?>) found).get(part);
            }
            saved.put(name, found);
        });
    }

    /** Replaces {@code "$name"} by what was saved. */
    private Object filled(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> found = new LinkedHashMap<>();
            map.forEach((name, inner) -> found.put((String) name, filled(inner)));
            return found;
        }
        if (value instanceof List<?> list) {
            List<Object> found = new ArrayList<>();
            list.forEach(inner -> found.add(filled(inner)));
            return found;
        }
        return value instanceof String text && text.startsWith("$") ? saved.get(text.substring(1)) : value;
    }

    private static void reach(Expectation messages, Map<String, Object> step) {
        if (step.containsKey("count")) {
            messages.count((int) step.get("count"));
        }
        if (step.containsKey("within_ms")) {
            messages.within(millis(step.get("within_ms")));
        }
        if (step.containsKey("advance_ms")) {
            messages.advancing(millis(step.get("advance_ms")));
        }
        map(step, "like").forEach((name, value) -> {
            switch (name) {
                case "tag" -> messages.tag((String) value);
                case "key" -> messages.key((String) value);
                case "message_id" -> messages.messageId((String) value);
                case "properties" -> ((Map<String, String>) value).forEach(messages::property);
                case "body" -> messages.body((String) value);
                case "json_path" -> ((Map<String, Object>) value).forEach(messages::json);
                case "delayed" -> messages.delayed((boolean) value);
                case "delay_level" -> messages.delayLevel((int) value);
                default -> throw new IllegalArgumentException("no such condition: " + name);
            }
        });
        String group = (String) step.get("group");
        switch ((String) step.get("stage")) {
            case "sent" -> messages.sent();
            case "delivered" -> messages.delivered();
            case "acknowledged" -> messages.acknowledgedBy(group);
            case "dead" -> {
                if (group == null) {
                    messages.dead();
                } else {
                    messages.deadOf(group);
                }
            }
            default -> throw new IllegalArgumentException("no such stage: " + step);
        }
    }

    private static SendOptions with(SendOptions message, Map<String, Object> options) {
        options.forEach((name, value) -> {
            switch (name) {
                case "tag" -> message.tag((String) value);
                case "keys" -> ((List<String>) value).forEach(message::key);
                case "properties" -> ((Map<String, String>) value).forEach(message::property);
                case "delay_level" -> message.delayLevel((int) value);
                case "delay_ms" -> message.delay(millis(value));
                default -> throw new IllegalArgumentException("no such option: " + name);
            }
        });
        return message;
    }

    private static Object field(SentMessage message, String name) {
        return switch (name) {
            case "topic" -> message.topic();
            case "body" -> message.body();
            case "tag" -> message.tag();
            case "keys" -> message.keys();
            case "state" -> message.state();
            case "delay_level" -> message.delayLevel();
            default -> message.fields().get(name);
        };
    }

    /** Numbers as the kit returns them. */
    private static Object whole(Object value) {
        return value instanceof Integer number ? number.longValue() : value;
    }

    private static void connect(String address) throws IOException {
        URI uri = URI.create(address);
        new Socket(uri.getHost(), uri.getPort()).close();
    }

    private static Map<String, Object> map(Map<String, Object> step, String name) {
        return (Map<String, Object>) step.getOrDefault(name, Map.of());
    }

    private static Duration millis(Object number) {
        return Duration.ofMillis(((Number) number).longValue());
    }
}
