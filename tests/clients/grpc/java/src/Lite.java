import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import java.util.Set;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.java.exception.LiteSubscriptionQuotaExceededException;

/** Sends to lite topics and consumes them with rocketmq-client-java, as the lines of stdin say. */
public final class Lite {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private Lite() {
    }

    public static void main(String[] args) throws Exception {
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false)
                .setRequestTimeout(Duration.ofSeconds(30)).build();
        String topic = args[1];
        Set<String> failed = ConcurrentHashMap.newKeySet();
        Producer producer =
            PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        LitePushConsumer consumer = PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(args[2]).bindTopic(topic).setMessageListener(message -> {
                String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
                System.out.printf("got %s %s %d%n", message.getLiteTopic().orElse("-"), body,
                    message.getDeliveryAttempt());
                boolean fails = body.equals("fails") && failed.add(message.getMessageId().toString());
                return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
        System.out.println("ready");
        java.util.Scanner lines = new java.util.Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            try {
                switch (words[0]) {
                    case "subscribe" -> consumer.subscribeLite(words[1]);
                    case "unsubscribe" -> consumer.unsubscribeLite(words[1]);
                    case "list" -> System.out.println("has " + String.join(" ",
                        consumer.getLiteTopicSet().stream().sorted().toList()));
                    default -> producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setLiteTopic(words[1])
                        .setBody(words[2].getBytes(StandardCharsets.UTF_8)).build());
                }
                System.out.println("done");
            } catch (LiteSubscriptionQuotaExceededException error) {
                System.out.println("over quota");
            } catch (Exception error) {
                System.out.println("refused " + error.getMessage());
            }
        }
        producer.close();
        Runtime.getRuntime().halt(0); // to close the consumer would take as long as its long poll
    }
}
