package kit;

import static org.junit.jupiter.api.Assertions.fail;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Fails in each way whose report has the broker's story. Its name keeps it out of other runs. */
class WrongOrder {
    @Test
    @MocketMqTest
    void fails(MocketMq mq) {
        mq.send("orders", "order 7", it -> it.key("7"));
        mq.expect("orders").key("8").within(Duration.ZERO).sent();
    }

    @MocketMqTest
    static class WrongBefore {
        @BeforeEach
        void fails(MocketMq mq) {
            mq.send("orders", "order 9");
            fail("before");
        }

        @Test
        void isNotReached() {
        }
    }
}
