import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Drives rocketmq-client-java: JSON commands by lines of stdin, answers and messages by lines of stdout. */
public final class GrpcDriver {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\": (?:\"([^\"]*)\"|(\\d+))");
    private static final PrintStream ANSWERS = System.out;
    private static final CountDownLatch RELEASED = new CountDownLatch(1);
    private static final long PAUSE_MS = 200; // after an error; a client that receives without pause is disconnected
    private static Producer transactional;
    private static Transaction transaction;

    private GrpcDriver() {
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // whatever the library prints is no answer
        var configuration = ClientConfiguration.newBuilder().setEndpoints(field(args[0], "address")).build();
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).build();
        var threads = Executors.newCachedThreadPool();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String read; (read = lines.readLine()) != null; ) {
            String line = read;
            threads.execute(() -> {
                String id = field(line, "id");
                try {
                    switch (field(line, "call")) {
                        case "send" -> producer.send(message(line));
                        case "begin" -> begin(configuration, line);
                        case "commit" -> transaction.commit();
                        case "send_in_transaction" -> {
                            begin(configuration, line);
                            transaction.commit();
                        }
                        case "release" -> RELEASED.countDown();
                        default -> consume(configuration, line, threads);
                    }
                    tell("{\"id\": " + id + ", \"result\": {\"status\": \"OK\"}}");
                } catch (Throwable error) { // whatever it is, the test judges it
                    tell("{\"id\": " + id + ", \"error\": " + quoted(error.toString()) + "}");
                }
            });
        }
        System.exit(0);
    }

    private static Message message(String line) {
        byte[] body = field(line, "body").getBytes(StandardCharsets.UTF_8);
        var made = PROVIDER.newMessageBuilder().setTopic(field(line, "topic")).setBody(body);
        return line.contains("message_group") ? made.setMessageGroup(field(line, "message_group")).build() : made.build();
    }

    /** Send a message in a transaction, which remains open. */
    private static synchronized void begin(ClientConfiguration configuration, String line) throws Exception {
        if (transactional == null) {
            transactional = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(field(line, "topic")).setTransactionChecker(checked -> TransactionResolution.COMMIT).build();
        }
        transaction = transactional.beginTransaction();
        transactional.send(message(line), transaction);
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void consume(ClientConfiguration configuration, String line, Executor threads) throws Exception {
        String group = field(line, "group");
        String topic = field(line, "topic");
        String holding = line.contains("holding") ? field(line, "holding") : null;
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
        threads.execute(() -> {
            while (true) {
                try {
                    for (MessageView message : consumer.receive(16, Duration.ofSeconds(30))) {
                        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
                        String shown = "{\"body\": " + quoted(body) + "}";
                        String received = "{\"member\": " + quoted(group) + ", \"message\": " + shown + "}";
                        if (body.equals(holding)) {
                            tell(received);
                            RELEASED.await();
                            consumer.ack(message);
                        } else {
                            consumer.ack(message); // before the test moves the clock
                            tell(received);
                        }
                    }
                } catch (Throwable error) { // an application goes on, whatever it is
                    tell("{\"problem\": " + quoted(error.toString()) + "}");
                    pause();
                }
            }
        });
    }

    private static String field(String json, String name) {
        for (Matcher found = FIELD.matcher(json); found.find(); ) {
            if (found.group(1).equals(name)) {
                return found.group(2) == null ? found.group(3) : found.group(2);
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\t", " ") + "\"";
    }

    private static synchronized void tell(String line) {
        ANSWERS.println(line);
        ANSWERS.flush();
    }
}
