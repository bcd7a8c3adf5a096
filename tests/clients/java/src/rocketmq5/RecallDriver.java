package rocketmq5;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/** A producer of rocketmq-client 5.5 that recalls what it sent. */
public final class RecallDriver {
    private final DefaultMQProducer producer = new DefaultMQProducer("GID_recall");

    private RecallDriver(JSONObject options) throws Exception {
        producer.setNamesrvAddr(options.getString("name_server"));
        producer.setSendMsgTimeout(60_000); // its own is short for a cold JVM
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        RecallDriver driver = new RecallDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of("send", driver::send, "recall", driver::recall));
    }

    private Object send(JSONObject command) throws Exception {
        Message message =
            new Message(command.getString("topic"), command.getString("body").getBytes(UTF_8));
        command.getJSONObject("properties").forEach((name, text) ->
            MessageAccessor.putProperty(message, name, (String) text));
        SendResult result = producer.send(message);
        return new JSONObject()
            .fluentPut("message_id", result.getMsgId())
            .fluentPut("handle", result.getRecallHandle());
    }

    private Object recall(JSONObject command) throws Exception {
        return producer.recallMessage(command.getString("topic"), command.getString("handle"));
    }
}
