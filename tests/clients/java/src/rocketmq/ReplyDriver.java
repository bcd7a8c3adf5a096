package rocketmq;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Asks and replies by rocketmq-client, of 4.9 or 5.5. */
public final class ReplyDriver {
    private static final int WAIT_MS = 60_000; // longer than the broker waits for who asked

    private final String nameServer;
    private final DefaultMQProducer producer;
    private final Map<String, CompletableFuture<String>> replies = new ConcurrentHashMap<>();

    private ReplyDriver(JSONObject options) throws Exception {
        nameServer = options.getString("name_server");
        producer = new DefaultMQProducer(options.getString("group"));
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(options.getString("group"));
        producer.setSendMsgTimeout(WAIT_MS);
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        ReplyDriver driver = new ReplyDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of(
            "send", driver::send,
            "request", driver::request,
            "request_async", driver::requestAsync,
            "reply", driver::reply,
            "replied", driver::replied));
    }

    private Object send(JSONObject command) throws Exception {
        producer.send(made(command));
        return null;
    }

    private Object request(JSONObject command) throws Exception {
        return shown(producer.request(made(command), command.getLong("timeout_ms")));
    }

    private Object requestAsync(JSONObject command) throws Exception {
        CompletableFuture<Message> done = new CompletableFuture<>();
        producer.request(made(command), new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                if (message != null) { // both versions call it without one as well, when the request is sent
                    done.complete(message);
                }
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        }, command.getLong("timeout_ms"));
        return shown(done.get());
    }

    /** Consume a topic, and reply to everything but "silence" with what was asked, as often as "times" says. */
    private Object reply(JSONObject command) throws Exception {
        int times = command.getIntValue("times");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(command.getString("topic"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(producer.getInstanceName());
        consumer.subscribe(command.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            String body = new String(message.getBody(), UTF_8);
            if (!body.equals("silence")) {
                told(body).complete(replied(message, body.repeat(times)));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return null;
    }

    private String replied(MessageExt message, String body) {
        try {
            return producer.send(MessageUtil.createReplyMessage(message, body.getBytes(UTF_8)), WAIT_MS)
                .getSendStatus().name();
        } catch (Exception error) {
            return error + ": " + error.getCause();
        }
    }

    /** What came of the reply to a body. */
    private Object replied(JSONObject command) throws Exception {
        return told(command.getString("body")).get();
    }

    private CompletableFuture<String> told(String body) {
        return replies.computeIfAbsent(body, any -> new CompletableFuture<>());
    }

    private static Message made(JSONObject command) {
        return new Message(command.getString("topic"), command.getString("body").getBytes(UTF_8));
    }

    private static JSONObject shown(Message reply) {
        return new JSONObject()
            .fluentPut("topic", reply.getTopic())
            .fluentPut("body", new String(reply.getBody(), UTF_8))
            .fluentPut("properties", reply.getProperties());
    }
}
