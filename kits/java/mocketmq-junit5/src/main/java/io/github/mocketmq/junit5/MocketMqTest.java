package io.github.mocketmq.junit5;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceLock;

/**
 * Gives the tests of a class a RocketMQ broker: empty before each test, its clock moved by hand.
 *
 * <p>Constructors, lifecycle methods and tests take it as a parameter:
 *
 * <pre>{@code
 * @MocketMqTest
 * class OrderTest {
 *     @Test
 *     void anUnpaidOrderIsCancelled(MocketMq mq) {
 *         mq.send("orders", "not paid", it -> it.delay(Duration.ofMinutes(30)));
 *         mq.advance(Duration.ofMinutes(30));
 *         mq.expect("orders").count(1).delivered();
 *     }
 * }
 * }</pre>
 *
 * <p>All tests of a JVM share one broker, so those that JUnit runs in parallel follow each other. The report of a failed
 * test has the broker's story.
 */
@Target({ElementType.TYPE, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@Documented
@Inherited
@ExtendWith(MocketMqExtension.class)
@ResourceLock("io.github.mocketmq")
public @interface MocketMqTest {
    /**
     * Topics that the broker has from the start. Others are created by their first message.
     *
     * @return names of topics
     */
    String[] topics() default {};

    /**
     * Whether each test begins without the topics and groups of others, as if the broker were new.
     *
     * @return whether topics and groups are forgotten
     */
    boolean forget() default false;

    /**
     * The snapshot that each test begins with, instead of an empty broker.
     *
     * @return name of a snapshot that was saved before, or is in the directory of {@code --snapshots}; empty for none
     */
    String snapshot() default "";
}
