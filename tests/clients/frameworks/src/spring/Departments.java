package spring;

import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.springframework.messaging.Message;
import org.springframework.stereotype.Component;
import shop.Journal;
import shop.Order;

/** Those who listen to what happens to orders. */
final class Departments {
    @Component
    @RocketMQMessageListener(
        topic = "orders", selectorExpression = "placed", consumerGroup = "billing", maxReconsumeTimes = 2)
    static class Billing implements RocketMQListener<Order> {
        @Override
        public void onMessage(Order order) {
            Journal.bill(order);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "orders", selectorExpression = "unpaid", consumerGroup = "reminding")
    static class Reminding implements RocketMQListener<Order> {
        @Override
        public void onMessage(Order order) {
            Journal.write("reminding", order.number());
        }
    }

    @Component
    @RocketMQMessageListener(topic = "parcels", consumerGroup = "packing", consumeMode = ConsumeMode.ORDERLY)
    static class Packing implements RocketMQListener<String> {
        @Override
        public void onMessage(String step) {
            Journal.write("packing", step);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "payments", consumerGroup = "accounting")
    static class Accounting implements RocketMQListener<Order> {
        @Override
        public void onMessage(Order order) {
            Journal.write("accounting", order.number());
        }
    }

    @Component
    @RocketMQMessageListener(topic = "prices", consumerGroup = "pricing")
    static class Pricing implements RocketMQReplyListener<Order, String> {
        @Override
        public String onMessage(Order order) {
            return "order " + order.number() + " costs 7.00";
        }
    }

    @RocketMQTransactionListener
    static class Payments implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object state) {
            return RocketMQLocalTransactionState.valueOf((String) state);
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            Journal.write("checks", message.getHeaders().get("rocketmq_KEYS"));
            return RocketMQLocalTransactionState.COMMIT;
        }
    }
}
