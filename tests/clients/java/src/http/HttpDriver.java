package http;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSONObject;
import com.aliyun.mq.http.MQClient;
import com.aliyun.mq.http.MQConsumer;
import com.aliyun.mq.http.MQProducer;
import com.aliyun.mq.http.MQTransProducer;
import com.aliyun.mq.http.common.AckMessageException;
import com.aliyun.mq.http.common.ServiceException;
import com.aliyun.mq.http.model.AsyncCallback;
import com.aliyun.mq.http.model.Message;
import com.aliyun.mq.http.model.TopicMessage;
import driver.Lines;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** Drives Aliyun's mq-http-sdk: any number of clients, each opened for an account under a name of its own. */
public final class HttpDriver {
    private static final List<String> WITH_GETTER =
        List.of("KEYS", "__STARTDELIVERTIME", "__SHARDINGKEY", "__TransCheckT");

    private final Map<String, MQClient> clients = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        HttpDriver driver = new HttpDriver();
        Lines.serve(Map.of(
            "open", driver::open,
            "close", driver::close,
            "publish", refusable(driver::publish),
            "consume", refusable(driver::consume),
            "acknowledge", refusable(driver::acknowledge),
            "publish_half", refusable(driver::publishHalf),
            "consume_half", refusable(driver::consumeHalf),
            "commit", refusable(driver::commit),
            "rollback", refusable(driver::rollback),
            "with_callbacks", refusable(driver::withCallbacks)));
    }

    private Object open(JSONObject command) {
        clients.put(command.getString("client"), new MQClient(
            command.getString("url"),
            command.getString("key_id"),
            command.getString("secret"),
            command.getString("token")));
        return null;
    }

    private Object close(JSONObject command) {
        clients.remove(command.getString("client")).close();
        return null;
    }

    private Object publish(JSONObject command) {
        MQProducer producer = of(command).getProducer(command.getString("instance"), command.getString("topic"));
        return published(producer.publishMessage(made(command.getJSONObject("message"))));
    }

    private Object consume(JSONObject command) {
        MQConsumer consumer = consumer(command);
        int limit = command.getIntValue("limit");
        int waitS = command.getIntValue("wait_s");
        return shown(command.getBooleanValue("orderly")
            ? consumer.consumeMessageOrderly(limit, waitS)
            : consumer.consumeMessage(limit, waitS));
    }

    private Object acknowledge(JSONObject command) {
        consumer(command).ackMessage(command.getJSONArray("handles").toJavaList(String.class));
        return null;
    }

    private Object publishHalf(JSONObject command) {
        return published(halves(command).publishMessage(made(command.getJSONObject("message"))));
    }

    private Object consumeHalf(JSONObject command) {
        return shown(halves(command).consumeHalfMessage(16, 0));
    }

    private Object commit(JSONObject command) {
        halves(command).commit(command.getString("handle"));
        return null;
    }

    private Object rollback(JSONObject command) {
        halves(command).rollback(command.getString("handle"));
        return null;
    }

    /** Publish, consume and acknowledge: each goes on when its callback is called. */
    private Object withCallbacks(JSONObject command) throws Exception {
        TopicMessage message = made(command.getJSONObject("message"));
        MQProducer producer = of(command).getProducer(command.getString("instance"), command.getString("topic"));
        TopicMessage published = awaited(callback -> producer.asyncPublishMessage(message, callback));
        MQConsumer consumer = consumer(command);
        List<Message> messages = awaited(callback -> consumer.asyncConsumeMessage(16, 30, callback));
        List<String> handles = messages.stream().map(Message::getReceiptHandle).toList();
        HttpDriver.<Void>awaited(callback -> consumer.asyncAckMessage(handles, callback));
        return new JSONObject().fluentPut("published", published(published)).fluentPut("consumed", shown(messages));
    }

    private static <T> T awaited(Consumer<AsyncCallback<T>> start) throws Exception {
        CompletableFuture<T> done = new CompletableFuture<>();
        start.accept(new AsyncCallback<>() {
            @Override
            public void onSuccess(T result) {
                done.complete(result);
            }

            @Override
            public void onFail(Exception error) {
                done.completeExceptionally(error);
            }
        });
        return done.get();
    }

    private MQClient of(JSONObject command) {
        return clients.get(command.getString("client"));
    }

    private MQConsumer consumer(JSONObject command) {
        return of(command).getConsumer(
            command.getString("instance"),
            command.getString("topic"),
            command.getString("group"),
            command.getString("tags"));
    }

    private MQTransProducer halves(JSONObject command) {
        return of(command).getTransProducer(
            command.getString("instance"), command.getString("topic"), command.getString("group"));
    }

    /** A call whose refusal by the service is an answer as well. */
    private static Lines.Call refusable(Lines.Call call) {
        return command -> {
            try {
                return new JSONObject().fluentPut("returned", call.on(command));
            } catch (AckMessageException error) {
                JSONObject failed = new JSONObject();
                error.getErrorMessages().forEach((handle, one) -> failed.put(handle, one.getErrorCode()));
                return new JSONObject().fluentPut("failed", failed);
            } catch (ServiceException error) {
                return new JSONObject()
                    .fluentPut("refused", error.getErrorCode())
                    .fluentPut("message", error.getMessage())
                    .fluentPut("request_id", error.getRequestId())
                    .fluentPut("host_id", error.getHostId());
            }
        };
    }

    private static TopicMessage made(JSONObject given) {
        TopicMessage message = new TopicMessage(given.getString("body").getBytes(UTF_8), given.getString("tag"));
        if (given.get("key") != null) {
            message.setMessageKey(given.getString("key"));
        }
        if (given.get("start_deliver_ms") != null) {
            message.setStartDeliverTime(given.getLongValue("start_deliver_ms"));
        }
        if (given.get("sharding_key") != null) {
            message.setShardingKey(given.getString("sharding_key"));
        }
        if (given.get("check_after_s") != null) {
            message.setTransCheckImmunityTime(given.getIntValue("check_after_s"));
        }
        given.getJSONObject("properties").forEach((name, text) ->
            message.getProperties().put(name, (String) text));
        return message;
    }

    private static JSONObject published(TopicMessage message) {
        return new JSONObject()
            .fluentPut("message_id", message.getMessageId())
            .fluentPut("body_md5", message.getMessageBodyMD5())
            .fluentPut("handle", message.getReceiptHandle());
    }

    /** Messages, or null for none, as the library tells it. */
    private static Object shown(List<Message> messages) {
        return messages == null ? null : messages.stream().map(HttpDriver::shown).toList();
    }

    private static JSONObject shown(Message message) {
        Map<String, String> properties = new HashMap<>(message.getProperties());
        WITH_GETTER.forEach(properties::remove);
        long startDeliverMs = message.getStartDeliverTime();
        return new JSONObject()
            .fluentPut("message_id", message.getMessageId())
            .fluentPut("body", message.getMessageBodyString())
            .fluentPut("body_md5", message.getMessageBodyMD5())
            .fluentPut("tag", message.getMessageTag())
            .fluentPut("key", message.getMessageKey())
            .fluentPut("start_deliver_ms", startDeliverMs == 0 ? null : startDeliverMs)
            .fluentPut("sharding_key", message.getShardingKey())
            .fluentPut("properties", properties)
            .fluentPut("handle", message.getReceiptHandle())
            .fluentPut("publish_ms", message.getPublishTime())
            .fluentPut("first_consume_ms", message.getFirstConsumeTime())
            .fluentPut("next_consume_ms", message.getNextConsumeTime())
            .fluentPut("times", message.getConsumedTimes());
    }
}
