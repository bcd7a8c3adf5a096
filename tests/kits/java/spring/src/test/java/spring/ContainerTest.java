package spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import io.github.mocketmq.spring.MocketMqConnectionDetails;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.testcontainers.service.connection.ServiceConnection;
import org.springframework.messaging.support.MessageBuilder;

/** A context on a container, by Spring Boot's own annotation; {@code @MocketMqTest} resets its broker. */
@SpringBootTest(classes = Billing.class, properties = {"rocketmq.producer.group=shop", "context=ContainerTest"})
@EnableAutoConfiguration
@MocketMqTest
class ContainerTest {
    @ServiceConnection
    static final ContainerStandIn CONTAINER = new ContainerStandIn();

    @Autowired
    private RocketMQTemplate template;

    @Autowired
    private MocketMqConnectionDetails details;

    @Autowired
    private Billing billing;

    @Autowired
    private MocketMq bean;

    @Test
    void anOrderIsBilledAfterHalfAnHour(MocketMq mq) throws Exception {
        assertSame(bean, mq);
        assertEquals(CONTAINER.nameServer(), mq.nameServer());
        assertEquals(CONTAINER.nameServer(), details.nameServer());
        template.syncSend("orders", MessageBuilder.withPayload("ContainerTest").build(), 60_000, 16);
        mq.expect("orders").count(1).delayLevel(16).sent();
        mq.advance(Duration.ofMinutes(30));
        assertEquals("ContainerTest", billing.billed.poll(60, TimeUnit.SECONDS));
    }
}
