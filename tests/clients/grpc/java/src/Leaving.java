import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

/** Closes rocketmq-client-java while it receives; consumes nothing until stdin ends; closes it while it sends. */
public final class Leaving {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int SENDS = 40;
    private static final int LONGEST_S = 60;
    /** Instead of three seconds, which the first answer of a real proxy takes on a busy machine. */
    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static ClientConfiguration configuration;

    private Leaving() {
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            System.out.println("uncaught " + error);
            error.printStackTrace();
        });
        configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).setRequestTimeout(TIMEOUT).build();
        closeWhileReceiving(args[2]);
        PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup("g-idle")
            .setSubscriptionExpressions(Map.of(args[2], FilterExpression.SUB_ALL))
            .setMessageListener(message -> ConsumeResult.SUCCESS).build();
        System.out.println("idle");
        System.in.read();
        closeWhileSending(args[1]);
        Runtime.getRuntime().halt(0); // to close the consumer would take as long as its long poll
    }

    private static void closeWhileSending(String topic) throws Exception {
        Producer producer =
            PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        byte[] body = "closing".getBytes(StandardCharsets.UTF_8);
        List<CompletableFuture<SendReceipt>> sends = new ArrayList<>();
        for (int number = 0; number < SENDS; number++) {
            sends.add(producer.sendAsync(PROVIDER.newMessageBuilder().setTopic(topic).setBody(body).build()));
        }
        producer.close();
        try {
            CompletableFuture.allOf(sends.toArray(new CompletableFuture[0])).get(LONGEST_S, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException counted) {
            // by the states below
        }
        long failed = sends.stream().filter(CompletableFuture::isCompletedExceptionally).count();
        long ended = sends.stream().filter(CompletableFuture::isDone).count();
        System.out.printf("sends %d %d %d%n", ended - failed, failed, SENDS - ended);
    }

    private static void closeWhileReceiving(String topic) throws Exception {
        SimpleConsumer simple = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup("g-closing").setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
        CompletableFuture<List<MessageView>> receive = simple.receiveAsync(1, Duration.ofSeconds(30));
        Thread.sleep(1_000); // until it waits
        simple.close();
        String outcome;
        try {
            outcome = receive.get(LONGEST_S, TimeUnit.SECONDS).isEmpty() ? "empty" : "messages";
        } catch (TimeoutException never) {
            outcome = "open";
        } catch (ExecutionException error) {
            outcome = error.getCause().getClass().getSimpleName();
        }
        System.out.println("receive " + outcome);
    }
}
