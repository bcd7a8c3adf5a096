package stream;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.springframework.stereotype.Component;

/** Chooses one queue for all messages of an order. The binder gives it the headers of the message. */
@Component("byOrder")
public class ByOrder implements MessageQueueSelector {
    @Override
    public MessageQueue select(List<MessageQueue> queues, Message message, Object headers) {
        return queues.get(Math.floorMod(((Map<?, ?>) headers).get("order").hashCode(), queues.size()));
    }
}
