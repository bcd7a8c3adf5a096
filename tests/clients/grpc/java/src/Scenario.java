import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiPredicate;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** What an application does with rocketmq-client-java, against host:port: prints each step that worked. */
public final class Scenario {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long LONGEST_MS = 60_000;
    private static ClientConfiguration configuration;
    private static Producer producer;

    private Scenario() {
    }

    public static void main(String[] args) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).build(); // TLS, as by default
        producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).build();
        SendReceipt receipt = producer.send(message("plain", "hello").setTag("A").setKeys("k").build());
        SimpleConsumer simple = consumer("g-plain", "plain", FilterExpression.SUB_ALL);
        MessageView got = take(simple, 1).get(0);
        check(body(got).equals("hello") && got.getDeliveryAttempt() == 1, got);
        check(got.getMessageId().equals(receipt.getMessageId()), got);
        ok("normal");

        long due = System.currentTimeMillis() + 2_000;
        receipt = producer.send(message("plain", "delayed").setDeliveryTimestamp(due).build());
        check(body(take(simple, 1).get(0)).equals("delayed") && System.currentTimeMillis() >= due, due);
        ok("delay");

        long later = System.currentTimeMillis() + 30_000;
        receipt = producer.send(message("plain", "recalled").setDeliveryTimestamp(later).build());
        try {
            Object handle = SendReceipt.class.getMethod("getRecallHandle").invoke(receipt);
            Producer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, "plain", handle);
        } catch (NoSuchMethodException olderClient) {
            System.out.println("no recall");
        }
        ok("recall");

        producer.send(message("plain", "longer").build());
        List<MessageView> held = List.of();
        while (held.isEmpty()) {
            held = simple.receive(1, Duration.ofSeconds(15));
        }
        simple.changeInvisibleDuration(held.get(0), Duration.ofSeconds(30));
        simple.ack(held.get(0));
        ok("change");

        SimpleConsumer tagged = consumer("g-tag", "filtered", new FilterExpression("B"));
        for (String tag : new String[] {"A", "B", "C"}) {
            producer.send(message("filtered", tag).setTag(tag).build());
        }
        check(body(take(tagged, 1).get(0)).equals("B"), "filter");
        ok("filter");

        for (int number = 0; number < 5; number++) {
            producer.send(message("fifo", "" + number).setMessageGroup("one").build());
        }
        List<String> order = new CopyOnWriteArrayList<>();
        PushConsumer ordered = listen("g-fifo", "fifo", order, (text, attempt) -> text.equals("2") && attempt == 1);
        until(() -> order.size() >= 6);
        List<String> bodies = order.stream().map(each -> each.split(" ")[0]).distinct().collect(Collectors.toList());
        check(bodies.equals(List.of("0", "1", "2", "3", "4")), order);
        ok("fifo");

        List<String> attempts = new CopyOnWriteArrayList<>();
        PushConsumer retrying = listen("g-retry", "retried", attempts, (text, attempt) -> true);
        producer.send(message("retried", "bad").build());
        until(() -> attempts.size() >= 2);
        check(attempts.equals(List.of("bad 1", "bad 2")), attempts);
        SimpleConsumer dead = consumer("g-dead", "%DLQ%g-retry", FilterExpression.SUB_ALL);
        check(body(take(dead, 1).get(0)).equals("bad"), "dead");
        ok("dead letter");

        Producer transactional = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics("paid")
            .setTransactionChecker(message -> TransactionResolution.COMMIT).build();
        SimpleConsumer paid = consumer("g-paid", "paid", FilterExpression.SUB_ALL);
        for (String text : new String[] {"committed", "rolled back", "forgotten"}) {
            Transaction transaction = transactional.beginTransaction();
            transactional.send(message("paid", text).build(), transaction);
            if (text.equals("committed")) {
                transaction.commit();
            } else if (text.equals("rolled back")) {
                transaction.rollback();
            }
        }
        List<String> kept = take(paid, 2).stream().map(Scenario::body).sorted().collect(Collectors.toList());
        check(kept.equals(List.of("committed", "forgotten")), kept);
        ok("transaction");

        for (AutoCloseable client : List.of(ordered, retrying, simple, tagged, dead, paid, producer, transactional)) {
            client.close();
        }
        ok("shutdown");
        System.exit(0);
    }

    private static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static SimpleConsumer consumer(String group, String topic, FilterExpression expression) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(Collections.singletonMap(topic, expression)).build();
    }

    private static PushConsumer listen(
        String group, String topic, List<String> seen, BiPredicate<String, Integer> fails) throws Exception {
        return PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                seen.add(body(message) + " " + message.getDeliveryAttempt());
                boolean isBad = fails.test(body(message), message.getDeliveryAttempt());
                return isBad ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
    }

    private static List<MessageView> take(SimpleConsumer simple, int count) throws Exception {
        List<MessageView> taken = new ArrayList<>();
        long end = System.currentTimeMillis() + LONGEST_MS;
        while (taken.size() < count && System.currentTimeMillis() < end) {
            for (MessageView one : simple.receive(32, Duration.ofSeconds(15))) {
                simple.ack(one);
                taken.add(one);
            }
        }
        check(taken.size() == count, taken);
        return taken;
    }

    private static void until(BooleanSupplier condition) throws InterruptedException {
        long end = System.currentTimeMillis() + LONGEST_MS;
        while (!condition.getAsBoolean() && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
    }

    private static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    private static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void ok(String step) {
        System.out.println("ok " + step);
    }
}
