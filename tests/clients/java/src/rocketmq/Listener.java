package rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSONObject;
import driver.Hold;
import driver.Lines;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A push consumer that listens, whether it pulls or pops. */
public final class Listener {
    private static final long WAIT_MS = 200_000;

    private final String name;
    private final int failures;
    private final String failing;
    private final String holding;

    private Listener(String name, JSONObject command) {
        this.name = name;
        failures = command.getIntValue("failures");
        failing = command.getString("failing");
        holding = command.getString("holding");
    }

    /** Subscribe: every message fails as often as "failures" says, and one whose body is "failing" once; "holding" is held. */
    public static void listen(DefaultMQPushConsumer consumer, String name, JSONObject command)
        throws MQClientException {
        Listener listener = new Listener(name, command);
        consumer.subscribe(
            command.getString("topic"), Objects.requireNonNullElse(command.getString("tags"), "*"));
        if (command.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                listener.received(messages)
                    ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            int level = command.getIntValue("level");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(level);
                return listener.received(messages)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
    }

    /** Tell of a message; false if this attempt is one of those that have to fail. */
    private boolean received(List<MessageExt> messages) {
        MessageExt message = messages.get(0); // the default is one at a time
        JSONObject shown = shown(message);
        Lines.received(name, shown);
        if (shown.getString("body").equals(holding)) {
            Hold.await(holding);
        }
        return message.getReconsumeTimes() >= (shown.getString("body").equals(failing) ? 1 : failures);
    }

    /** The ids of a topic's queues among those that a consumer works on, once there are so many. */
    public static int[] queues(Set<MessageQueue> working, JSONObject command) throws InterruptedException {
        long until = System.currentTimeMillis() + WAIT_MS;
        while (true) {
            int[] queues = working.stream()
                .filter(queue -> queue.getTopic().equals(command.getString("topic")))
                .mapToInt(MessageQueue::getQueueId).sorted().toArray();
            if (queues.length == command.getIntValue("count") || System.currentTimeMillis() > until) {
                return queues;
            }
            Thread.sleep(10);
        }
    }

    /** A message as tests are told of it. */
    public static JSONObject shown(MessageExt message) {
        return new JSONObject()
            .fluentPut("topic", message.getTopic())
            .fluentPut("body", new String(message.getBody(), UTF_8))
            .fluentPut("tag", message.getTags())
            .fluentPut("keys", message.getKeys())
            .fluentPut("message_id", message.getMsgId())
            .fluentPut("queue_id", message.getQueueId())
            .fluentPut("queue_offset", message.getQueueOffset())
            .fluentPut("times", message.getReconsumeTimes())
            .fluentPut("properties", message.getProperties());
    }
}
