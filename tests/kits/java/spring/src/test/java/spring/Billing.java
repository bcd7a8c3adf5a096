package spring;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.springframework.stereotype.Component;

/** An application that bills orders. */
@Component
@RocketMQMessageListener(topic = "orders", consumerGroup = "billing")
class Billing implements RocketMQListener<String> {
    final BlockingQueue<String> billed = new LinkedBlockingQueue<>();

    @Override
    public void onMessage(String order) {
        billed.add(order);
    }
}
