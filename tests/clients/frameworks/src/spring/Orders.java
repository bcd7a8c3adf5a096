package spring;

import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.spring.core.RocketMQLocalRequestCallback;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Service;
import shop.Order;

/** Sends what happens to orders. */
@Service
class Orders {
    private static final long TIMEOUT_MS = 60_000;

    private final RocketMQTemplate rocketmq;

    Orders(RocketMQTemplate rocketmq) {
        this.rocketmq = rocketmq;
    }

    String place(Order order) {
        return rocketmq.syncSend("orders:placed", order).getMsgId();
    }

    CompletableFuture<String> placeAsync(Order order) {
        CompletableFuture<String> placed = new CompletableFuture<>();
        rocketmq.asyncSend("orders:placed", order, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                placed.complete(result.getMsgId());
            }

            @Override
            public void onException(Throwable error) {
                placed.completeExceptionally(error);
            }
        });
        return placed;
    }

    String remind(Order order, int level) {
        return rocketmq.syncSend("orders:unpaid", message(order), TIMEOUT_MS, level).getMsgId();
    }

    String remindIn(Order order, long seconds) {
        return rocketmq.syncSendDelayTimeSeconds("orders:unpaid", message(order), seconds).getMsgId();
    }

    /** A step of packing, after the steps before it. */
    String pack(Order order, String step) {
        return rocketmq.syncSendOrderly("parcels", order.number() + " " + step, order.number()).getMsgId();
    }

    /** Pay, where the state is what the own database knows of the payment: COMMIT, ROLLBACK or UNKNOWN. */
    String pay(Order order, String state) {
        return rocketmq.sendMessageInTransaction("payments", message(order), state).getLocalTransactionState().name();
    }

    String price(Order order, long timeoutMs) {
        return rocketmq.sendAndReceive("prices", order, String.class, timeoutMs);
    }

    CompletableFuture<String> priceAsync(Order order, long timeoutMs) {
        CompletableFuture<String> price = new CompletableFuture<>();
        rocketmq.sendAndReceive("prices", order, new RocketMQLocalRequestCallback<String>() {
            @Override
            public void onSuccess(String reply) {
                price.complete(reply);
            }

            @Override
            public void onException(Throwable error) {
                price.completeExceptionally(error);
            }
        }, timeoutMs);
        return price;
    }

    private static Message<Order> message(Order order) {
        return MessageBuilder.withPayload(order).setHeader("KEYS", order.number()).build();
    }
}
