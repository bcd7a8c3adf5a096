package rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Hold;
import driver.Lines;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** A transaction producer of rocketmq-client, of 4.9 or 5.5, that decides as a message's properties say. */
public final class TransactionDriver implements TransactionListener {
    private static final Map<String, LocalTransactionState> STATES = Map.of(
        "commit", LocalTransactionState.COMMIT_MESSAGE,
        "rollback", LocalTransactionState.ROLLBACK_MESSAGE,
        "unknown", LocalTransactionState.UNKNOW);

    private static final Map<String, TransactionDriver> KNOWN = new HashMap<>();

    private final String group;
    private final TransactionMQProducer producer;

    private TransactionDriver(JSONObject options) throws Exception {
        group = options.getString("group");
        producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(options.getString("name_server"));
        producer.setHeartbeatBrokerInterval(1_000); // it is asked once the broker knows it
        // Java is slow at first on a busy machine.
        producer.setSendMsgTimeout(Objects.requireNonNullElse(options.getInteger("send_timeout_ms"), 60_000));
        producer.setTransactionListener(this);
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        TransactionDriver driver = new TransactionDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of("send_in_transaction", driver::send));
    }

    /** The producer of the command's group, made once. */
    static synchronized TransactionDriver of(JSONObject options, JSONObject command) throws Exception {
        String group = command.getString("group");
        if (!KNOWN.containsKey(group)) {
            KNOWN.put(group, new TransactionDriver(new JSONObject(options).fluentPut("group", group)));
        }
        return KNOWN.get(group);
    }

    Object send(JSONObject command) throws Exception {
        Message message =
            new Message(command.getString("topic"), command.getString("body").getBytes(UTF_8));
        command.getJSONObject("properties").forEach((name, text) ->
            MessageAccessor.putProperty(message, name, (String) text));
        TransactionSendResult result = producer.sendMessageInTransaction(message, null);
        return new JSONObject()
            .fluentPut("message_id", result.getMsgId())
            .fluentPut("offset_message_id", result.getOffsetMsgId())
            .fluentPut("queue_id", result.getMessageQueue().getQueueId());
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object nothing) {
        String held = message.getUserProperty("held");
        if (held != null) {
            Lines.received(group, new JSONObject().fluentPut("body", held));
            Hold.await(held);
        }
        return STATES.get(message.getUserProperty("decision"));
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        Lines.received(group, new JSONObject()
            .fluentPut("topic", message.getTopic())
            .fluentPut("body", new String(message.getBody(), UTF_8))
            .fluentPut("message_id", message.getTransactionId()) // its MsgId is the broker's here
            .fluentPut("queue_id", message.getQueueId())
            .fluentPut("queue_offset", message.getQueueOffset())
            .fluentPut("times", message.getReconsumeTimes())
            .fluentPut("properties", message.getProperties()));
        return STATES.get(message.getUserProperty("later"));
    }
}
