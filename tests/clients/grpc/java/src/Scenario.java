import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiPredicate;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
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
        configuration = configuration(args[0], "secret").build(); // TLS, as by default
        producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).build();
        SendReceipt receipt = producer.send(
            message("plain", "hello").setTag("A").setKeys("k").addProperty("colour", "red").build());
        SimpleConsumer simple = consumer("g-plain", "plain", FilterExpression.SUB_ALL);
        MessageView got = take(simple, 1).get(0);
        check(body(got).equals("hello") && got.getDeliveryAttempt() == 1, got);
        check(got.getMessageId().equals(receipt.getMessageId()), got);
        check(got.getProperties().get("colour").equals("red"), got);
        System.out.println("id " + receipt.getMessageId());
        ok("normal");

        got = take(consumer("g-json", "json", FilterExpression.SUB_ALL), 1).get(0);
        check(body(got).equals("by JSON") && got.getTag().get().equals("A"), got);
        check(List.copyOf(got.getKeys()).equals(List.of("k")), got);
        ok("json");

        producer.sendAsync(message("plain", "later").build()).join();
        check(body(take(simple, 1).get(0)).equals("later"), "async");
        ok("async");

        for (int number = 0; number < 3; number++) {
            producer.send(message("batch", "" + number).setMessageGroup("one").build());
        }
        SimpleConsumer several = consumer("g-batch", "batch", FilterExpression.SUB_ALL);
        List<MessageView> batch = receive(several);
        check(batch.stream().map(Scenario::body).collect(Collectors.toList()).equals(List.of("0", "1", "2")), batch);
        for (MessageView one : batch) {
            several.ack(one);
        }
        ok("batch");

        String large = "x".repeat(4 << 20);
        producer.send(message("large", large).build());
        check(body(take(consumer("g-large", "large", FilterExpression.SUB_ALL), 1).get(0)).equals(large), "large");
        ok("large");

        long due = System.currentTimeMillis() + 2_000;
        receipt = producer.send(message("plain", "delayed").setDeliveryTimestamp(due).build());
        check(body(take(simple, 1).get(0)).equals("delayed") && System.currentTimeMillis() >= due, due);
        ok("delay");

        long later = System.currentTimeMillis() + 30_000;
        receipt = producer.send(message("plain", "recalled").setDeliveryTimestamp(later).build());
        try {
            Object handle = SendReceipt.class.getMethod("getRecallHandle").invoke(receipt);
            Producer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, "plain", handle);
            ok("recall");
        } catch (NoSuchMethodException olderClient) {
            System.out.println("no recall");
        }

        producer.send(message("plain", "longer").build());
        simple.changeInvisibleDuration(receive(simple).get(0), Duration.ofSeconds(1));
        got = take(simple, 1).get(0);
        check(body(got).equals("longer") && got.getDeliveryAttempt() == 2, got);
        ok("change");

        SimpleConsumer tagged = consumer("g-tag", "filtered", new FilterExpression("B"));
        for (String tag : new String[] {"A", "B", "C"}) {
            producer.send(message("filtered", tag).setTag(tag).build());
        }
        check(body(take(tagged, 1).get(0)).equals("B"), "filter");
        ok("filter");

        FilterExpression dear = new FilterExpression("price > 10", FilterExpressionType.SQL92);
        SimpleConsumer priced = consumer("g-sql", "priced", dear);
        for (String price : new String[] {"9", "11"}) {
            producer.send(message("priced", price).addProperty("price", price).build());
        }
        check(body(take(priced, 1).get(0)).equals("11"), "sql");
        ok("sql");

        for (int number = 0; number < 5; number++) {
            producer.send(message("fifo", "" + number).setMessageGroup("one").build());
        }
        List<String> order = new CopyOnWriteArrayList<>();
        PushConsumer ordered = listen("g-fifo", "fifo", order, (text, attempt) -> text.equals("2") && attempt == 1);
        until(() -> order.size() >= 6);
        List<String> bodies = order.stream().map(each -> each.split(" ")[0]).distinct().collect(Collectors.toList());
        check(bodies.equals(List.of("0", "1", "2", "3", "4")), order);
        ok("fifo");

        try {
            Method prioritize = MessageBuilder.class.getMethod("setPriority", int.class);
            for (int priority : new int[] {1, 9, 5}) {
                MessageBuilder alarm = message("alarms", "" + priority);
                prioritize.invoke(alarm, priority);
                producer.send(alarm.build());
            }
            List<MessageView> alarms = take(consumer("g-alarms", "alarms", FilterExpression.SUB_ALL), 3);
            List<String> priorities = alarms.stream().map(Scenario::body).collect(Collectors.toList());
            check(priorities.equals(List.of("9", "5", "1")), alarms);
            check(MessageView.class.getMethod("getPriority").invoke(alarms.get(0)).equals(Optional.of(9)), alarms);
            ok("priority");
        } catch (NoSuchMethodException olderClient) {
            System.out.println("no priority");
        }

        List<String> attempts = new CopyOnWriteArrayList<>();
        PushConsumer retrying = listen("g-retry", "retried", attempts, (text, attempt) -> text.equals("bad"));
        producer.send(message("retried", "bad").build());
        until(() -> attempts.size() >= 2);
        check(attempts.equals(List.of("bad 1", "bad 2")), attempts);
        SimpleConsumer dead = consumer("g-dead", "%DLQ%g-retry", FilterExpression.SUB_ALL);
        check(body(take(dead, 1).get(0)).equals("bad"), "dead");
        ok("dead letter");

        Producer transactional = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics("paid")
            .setTransactionChecker(message -> body(message).equals("forgotten")
                ? TransactionResolution.COMMIT
                : TransactionResolution.UNKNOWN).build(); // on a slow machine the others are asked about, too
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

        ClientConfiguration everywhere = configuration;
        try {
            ClientConfigurationBuilder builder = configuration(args[0], "secret");
            ClientConfigurationBuilder.class.getMethod("setNamespace", String.class).invoke(builder, "tenant");
            configuration = builder.build();
            Producer inside = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).build();
            inside.send(message("spaced", "inside").build());
            SimpleConsumer spaced = consumer("g-spaced", "spaced", FilterExpression.SUB_ALL);
            check(body(take(spaced, 1).get(0)).equals("inside"), "spaced");
            inside.close();
            spaced.close();
            ok("namespace");
        } catch (NoSuchMethodException olderClient) {
            System.out.println("no namespace");
        }

        configuration = configuration(args[0], "wrong").build();
        try (Producer stranger = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).build()) {
            stranger.send(message("plain", "forged").build());
        } catch (ClientException | IllegalStateException refused) {
            ok("keys");
        }
        configuration = everywhere;

        List.of(ordered, retrying, simple, several, tagged, priced, dead, paid, producer, transactional)
            .forEach(Scenario::close);
        ok("shutdown");
        System.exit(0);
    }

    private static ClientConfigurationBuilder configuration(String endpoints, String secret) {
        return ClientConfiguration.newBuilder().setEndpoints(endpoints).setRequestTimeout(Duration.ofSeconds(30))
            .setCredentialProvider(new StaticSessionCredentialsProvider("shop", secret));
    }

    private static void close(AutoCloseable client) {
        try {
            client.close();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
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

    private static List<MessageView> receive(SimpleConsumer simple) throws Exception {
        List<MessageView> some = List.of();
        while (some.isEmpty()) {
            some = simple.receive(32, Duration.ofSeconds(60));
        }
        return some;
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
