package spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.messaging.support.MessageBuilder;

/** The first of two contexts. */
@SpringBootTest(classes = Billing.class, properties = {"rocketmq.producer.group=shop", "context=NorthTest"})
@EnableAutoConfiguration
@MocketMqTest
class NorthTest {
    @Autowired
    private RocketMQTemplate template;

    @Autowired
    private Billing billing;

    @Autowired
    private MocketMq bean;

    @Test
    void anOrderIsBilledAfterHalfAnHour(MocketMq mq) throws Exception {
        assertSame(bean, mq);
        template.syncSend("orders", MessageBuilder.withPayload("NorthTest").build(), 60_000, 16);
        mq.expect("orders").count(1).delayLevel(16).sent();
        mq.advance(Duration.ofMinutes(30));
        assertEquals("NorthTest", billing.billed.poll(60, TimeUnit.SECONDS));
    }
}
