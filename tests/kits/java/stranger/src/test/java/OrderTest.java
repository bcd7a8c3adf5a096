import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.time.Duration;
import org.junit.jupiter.api.Test;

@MocketMqTest
class OrderTest {
    @Test
    void anUnpaidOrderIsCancelledAfterHalfAnHour(MocketMq mq) {
        mq.send("orders", "order 7", it -> it.key("7").delay(Duration.ofMinutes(30)));
        mq.advance(Duration.ofMinutes(29));
        mq.expect("orders").count(0).delivered();
        mq.advance(Duration.ofMinutes(1));
        mq.expect("orders").count(1).key("7").delivered();
    }
}
