package rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Producers and consumers of rocketmq-client, of 4.9 or 5.5, that trace what they do; into "trace_topic", if given. */
public final class TraceDriver {
    private final String nameServer;
    private final String traceTopic;
    private final DefaultMQProducer producer;

    private TraceDriver(JSONObject options) throws Exception {
        nameServer = options.getString("name_server");
        traceTopic = options.getString("trace_topic");
        producer = new DefaultMQProducer("GID_java_traced", null, true, traceTopic);
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(60_000); // its first message takes long on a slow machine
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        TraceDriver driver = new TraceDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of(
            "send", driver::send, "commit", driver::commit, "consume", driver::consume, "close", driver::close));
    }

    private Object send(JSONObject command) throws Exception {
        return producer.send(made(command)).getMsgId();
    }

    /** Send a message in a transaction, which is committed at once. */
    private Object commit(JSONObject command) throws Exception {
        TransactionMQProducer producer =
            new TransactionMQProducer(null, command.getString("group"), null, true, traceTopic);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(command.getString("group"));
        producer.setSendMsgTimeout(60_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        producer.start();
        String messageId = producer.sendMessageInTransaction(made(command), null).getMsgId();
        producer.shutdown(); // sends what was traced
        return messageId;
    }

    /** Every message fails once. */
    private Object consume(JSONObject command) throws Exception {
        String group = command.getString("group");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            group, null, new AllocateMessageQueueAveragely(), true, traceTopic);
        consumer.setNamesrvAddr(nameServer);
        consumer.subscribe(command.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            messages.get(0).getReconsumeTimes() == 0
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        return null;
    }

    /** End the producer, which sends what it has traced. */
    private Object close(JSONObject command) {
        producer.shutdown();
        return null;
    }

    private static Message made(JSONObject given) {
        Message message = new Message(
            given.getString("topic"), given.getString("tag"), given.getString("keys"),
            given.getString("body").getBytes(UTF_8));
        if (given.containsKey("delay_level")) {
            message.setDelayTimeLevel(given.getIntValue("delay_level"));
        }
        return message;
    }
}
