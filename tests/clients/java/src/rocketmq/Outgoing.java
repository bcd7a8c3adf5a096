package rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.List;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** A message to be sent, and what its send is answered. */
final class Outgoing {
    static Message made(JSONObject given) throws Exception {
        Message message = new Message(given.getString("topic"), given.getString("body").getBytes(UTF_8));
        if (given.containsKey("tag")) {
            message.setTags(given.getString("tag"));
        }
        if (given.containsKey("keys")) {
            message.setKeys(given.getJSONArray("keys").toJavaList(String.class));
        }
        if (given.containsKey("delay_level")) {
            message.setDelayTimeLevel(given.getIntValue("delay_level"));
        }
        if (given.containsKey("setter")) { // one of 5.x only
            JSONArray setter = given.getJSONArray("setter");
            Message.class.getMethod(setter.getString(0), long.class).invoke(message, setter.getLong(1));
        }
        if (given.containsKey("priority")) { // from 5.4 on
            Message.class.getMethod("setPriority", int.class).invoke(message, given.getIntValue("priority"));
        }
        if (given.containsKey("properties")) {
            given.getJSONObject("properties").forEach((name, text) ->
                message.putUserProperty(name, (String) text));
        }
        return message;
    }

    /** The queue that a number stands for. */
    static MessageQueue chosen(List<MessageQueue> queues, Message message, Object number) {
        return queues.get((int) number % queues.size());
    }

    static JSONObject sent(SendResult result) {
        return new JSONObject()
            .fluentPut("is_ok", result.getSendStatus() == SendStatus.SEND_OK)
            .fluentPut("status", result.getSendStatus().name())
            .fluentPut("message_id", result.getMsgId())
            .fluentPut("offset_message_id", result.getOffsetMsgId())
            .fluentPut("queue_id", result.getMessageQueue().getQueueId())
            .fluentPut("queue_offset", result.getQueueOffset());
    }
}
