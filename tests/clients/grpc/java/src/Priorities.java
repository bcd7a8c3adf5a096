import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Sends priorities with rocketmq-client-java and receives them twice; prints their order. */
public final class Priorities {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    private static final int HIGHEST = 9;

    private Priorities() {
    }

    public static void main(String[] args) throws Exception {
        ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(30)).build();
        String topic = args[1];
        String other = args[2];
        int lowest = Integer.parseInt(args[4]);
        Producer producer =
            PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic, other).build();
        for (int priority = lowest; priority <= HIGHEST; priority++) {
            producer.send(message(topic, priority));
        }
        try {
            producer.send(message(other, 1));
            System.out.println("accepted");
        } catch (ClientException | IllegalArgumentException error) {
            System.out.println("refused " + error.getMessage().contains("PRIORITY"));
        }
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(args[3]).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build();
        List<MessageView> first = receive(consumer, 4);
        for (MessageView taken : first.subList(0, 2)) {
            consumer.ack(taken);
        }
        System.out.println("end");
        System.in.read();
        for (int left = HIGHEST + 1 - lowest - 2; left > 0; ) {
            for (MessageView taken : receive(consumer, 32)) {
                consumer.ack(taken);
                left--;
            }
        }
        System.out.println("end");
        Runtime.getRuntime().halt(0); // to close the consumer would take as long as its long poll
    }

    private static Message message(String topic, int priority) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setPriority(priority)
            .setBody(("" + priority).getBytes(StandardCharsets.UTF_8)).build();
    }

    private static List<MessageView> receive(SimpleConsumer consumer, int limit) throws ClientException {
        List<MessageView> found = consumer.receive(limit, INVISIBLE);
        for (MessageView one : found) {
            System.out.println(one.getPriority().orElseThrow() + " " + one.getDeliveryAttempt());
        }
        return found;
    }
}
