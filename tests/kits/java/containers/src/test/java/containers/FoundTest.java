package containers;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.time.Duration;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;

/** The kit finds neither a bundle nor a command, so it starts a container. */
@MocketMqTest
class FoundTest {
    @Test
    void aClientByRemotingSends(MocketMq mq) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(mq.nameServer());
        producer.start();
        try {
            Message order = new Message("orders", "order 7".getBytes());
            order.setDelayTimeLevel(16);
            producer.send(order, 60_000);
        } finally {
            producer.shutdown();
        }
        mq.advance(Duration.ofMinutes(29));
        mq.expect("orders").count(0).delivered();
        mq.advance(Duration.ofMinutes(1));
        mq.expect("orders").count(1).delivered();
    }
}
