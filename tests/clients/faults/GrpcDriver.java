import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Drives rocketmq-client-java: JSON commands by lines of stdin, answers and messages by lines of stdout. */
public final class GrpcDriver {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\": (?:\"([^\"]*)\"|(\\d+))");
    private static final PrintStream ANSWERS = System.out;

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
                    if (field(line, "call").equals("send")) {
                        byte[] body = field(line, "body").getBytes(StandardCharsets.UTF_8);
                        producer.send(PROVIDER.newMessageBuilder().setTopic(field(line, "topic")).setBody(body).build());
                    } else {
                        consume(configuration, field(line, "group"), field(line, "topic"), threads::execute);
                    }
                    tell("{\"id\": " + id + ", \"result\": {\"status\": \"OK\"}}");
                } catch (Throwable error) { // whatever it is, the test judges it
                    tell("{\"id\": " + id + ", \"error\": " + quoted(error.toString()) + "}");
                }
            });
        }
        System.exit(0);
    }

    private static void consume(
        ClientConfiguration configuration, String group, String topic, java.util.concurrent.Executor threads
    ) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
        threads.execute(() -> {
            while (true) {
                try {
                    for (MessageView message : consumer.receive(16, Duration.ofSeconds(30))) {
                        consumer.ack(message);
                        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
                        tell("{\"member\": " + quoted(group) + ", \"message\": {\"topic\": \"\", \"message_id\": \"\","
                            + " \"queue_id\": 0, \"queue_offset\": 0, \"times\": 0, \"properties\": {},"
                            + " \"body\": " + quoted(body) + "}}");
                    }
                } catch (Throwable error) { // an application goes on, whatever it is
                    tell("{\"problem\": " + quoted(error.toString()) + "}");
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
