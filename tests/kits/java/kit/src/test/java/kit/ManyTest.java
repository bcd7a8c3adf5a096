package kit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.time.Duration;
import org.junit.jupiter.api.RepeatedTest;

/** As many tests as a project may have. Each finds the broker empty. */
@MocketMqTest(topics = "orders")
class ManyTest {
    @RepeatedTest(200)
    void anOrderIsCancelled(MocketMq mq) {
        assertEquals(0, mq.sent("orders").size());
        mq.send("orders", "order 7", it -> it.key("7").delayLevel(16));
        mq.advance(Duration.ofMinutes(30));
        mq.expect("orders").count(1).key("7").delivered();
    }
}
