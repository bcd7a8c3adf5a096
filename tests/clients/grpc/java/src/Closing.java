import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;

/** A push consumer that prints what it receives, and closes at the first byte of its input. */
public final class Closing {
    private Closing() {
    }

    public static void main(String[] args) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(args[0]).setRequestTimeout(Duration.ofSeconds(30)).build();
        PushConsumer consumer = provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup("g-closing")
            .setSubscriptionExpressions(Map.of("orders", FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                System.out.println("received");
                return ConsumeResult.SUCCESS;
            })
            .build();
        System.in.read();
        long began = System.nanoTime();
        consumer.close();
        System.out.println((System.nanoTime() - began) / 1_000_000);
        System.exit(0);
    }
}
