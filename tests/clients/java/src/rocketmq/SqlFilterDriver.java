package rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers of rocketmq-client, of 4.9 or 5.5, that filter by SQL92. */
public final class SqlFilterDriver {
    private static final long WAIT_MS = 200_000;

    private final String nameServer;

    private SqlFilterDriver(JSONObject options) {
        nameServer = options.getString("name_server");
    }

    public static void main(String[] args) throws Exception {
        SqlFilterDriver driver = new SqlFilterDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of("consume", driver::consume, "poll", driver::poll, "pull", driver::pull));
    }

    /** Listen: every message fails as often as "failures" says. */
    private Object consume(JSONObject command) throws Exception {
        String group = command.getString("group");
        int failures = command.getIntValue("failures");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(group);
        consumer.subscribe(command.getString("topic"), selector(command));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            Lines.received(group, shown(messages.get(0)));
            return messages.get(0).getReconsumeTimes() >= failures
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        try {
            consumer.start();
        } catch (Exception error) {
            consumer.shutdown();
            throw error;
        }
        return null;
    }

    /** So many messages of a lite pull consumer. */
    private Object poll(JSONObject command) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(command.getString("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("lite");
        consumer.subscribe(command.getString("topic"), selector(command));
        consumer.start();
        try {
            List<Object> found = new ArrayList<>();
            long until = System.currentTimeMillis() + WAIT_MS;
            while (found.size() < command.getIntValue("count") && System.currentTimeMillis() < until) {
                consumer.poll().forEach(message -> found.add(shown(message)));
            }
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    /** What a pull consumer finds in all queues. */
    private Object pull(JSONObject command) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(command.getString("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("pull");
        consumer.start();
        try {
            // Whether a broker filters, the client sees by a heartbeat's answer; its first finds no broker.
            var factory = consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
            factory.updateTopicRouteInfoFromNameServer(command.getString("topic"));
            factory.sendHeartbeatToAllBrokerWithLock();
            List<Object> found = new ArrayList<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(command.getString("topic"))) {
                var result = consumer.pull(queue, selector(command), 0, 32);
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(message -> found.add(shown(message)));
                }
            }
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    private static MessageSelector selector(JSONObject command) {
        return MessageSelector.bySql(command.getString("sql"));
    }

    private static JSONObject shown(MessageExt message) {
        return new JSONObject()
            .fluentPut("topic", message.getTopic())
            .fluentPut("body", new String(message.getBody(), UTF_8))
            .fluentPut("message_id", message.getMsgId())
            .fluentPut("queue_id", message.getQueueId())
            .fluentPut("queue_offset", message.getQueueOffset())
            .fluentPut("times", message.getReconsumeTimes())
            .fluentPut("properties", message.getProperties());
    }
}
