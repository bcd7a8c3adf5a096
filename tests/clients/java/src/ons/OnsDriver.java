package ons;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.aliyun.openservices.ons.api.Action;
import com.aliyun.openservices.ons.api.Admin;
import com.aliyun.openservices.ons.api.Consumer;
import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.OnExceptionContext;
import com.aliyun.openservices.ons.api.Producer;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.SendCallback;
import com.aliyun.openservices.ons.api.SendResult;
import com.aliyun.openservices.ons.api.order.OrderAction;
import com.aliyun.openservices.ons.api.order.OrderConsumer;
import com.aliyun.openservices.ons.api.order.OrderProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionStatus;
import driver.Hold;
import driver.Lines;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/** Drives Aliyun's ons-client; its options are the client's own properties. */
public final class OnsDriver {
    private final JSONObject options;
    private final Producer producer;
    private final OrderProducer orderProducer;
    private final Map<String, Admin> consumers = new ConcurrentHashMap<>();
    private final Map<String, TransactionProducer> deciding = new ConcurrentHashMap<>();

    private OnsDriver(JSONObject options) {
        this.options = options;
        producer = ONSFactory.createProducer(properties("GID_ons"));
        producer.start();
        orderProducer = ONSFactory.createOrderProducer(properties("GID_ons_order"));
        orderProducer.start();
    }

    public static void main(String[] args) throws Exception {
        OnsDriver driver = new OnsDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of(
            "send", driver::send,
            "send_async", driver::sendAsync,
            "send_oneway", driver::sendOneway,
            "send_orderly", driver::sendOrderly,
            "send_in_transaction", driver::sendInTransaction,
            "release", Hold::release,
            "consume", driver::consume,
            "close", driver::close));
    }

    private Object send(JSONObject command) {
        return sent(producer.send(made(command)));
    }

    private Object sendAsync(JSONObject command) throws Exception {
        CompletableFuture<SendResult> done = new CompletableFuture<>();
        producer.sendAsync(made(command), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.complete(result);
            }

            @Override
            public void onException(OnExceptionContext context) {
                done.completeExceptionally(context.getException());
            }
        });
        return sent(done.get());
    }

    private Object sendOneway(JSONObject command) {
        producer.sendOneway(made(command));
        return null;
    }

    private Object sendOrderly(JSONObject command) {
        return sent(orderProducer.send(made(command), command.getString("sharding_key")));
    }

    /** Commit at once, or when asked, if the properties "decision" or "later" say so. */
    private Object sendInTransaction(JSONObject command) {
        String group = command.getString("group");
        TransactionProducer transactional = deciding.computeIfAbsent(group, any -> {
            TransactionProducer started = ONSFactory.createTransactionProducer(
                properties(group), message -> status(message, "later"));
            started.start();
            return started;
        });
        return sent(transactional.send(made(command), (message, nothing) -> {
            String held = message.getUserProperties("held");
            if (held != null) {
                Lines.received(group, new JSONObject().fluentPut("body", held));
                Hold.await(held);
            }
            return status(message, "decision");
        }, null));
    }

    private static TransactionStatus status(Message message, String property) {
        return "commit".equals(message.getUserProperties(property))
            ? TransactionStatus.CommitTransaction
            : TransactionStatus.Unknow;
    }

    private Object consume(JSONObject command) {
        String group = command.getString("group");
        String topic = command.getString("topic");
        String tags = Objects.requireNonNullElse(command.getString("tags"), "*");
        int failures = command.getIntValue("failures");
        String holding = command.getString("holding");
        if (command.getBooleanValue("orderly")) {
            OrderConsumer consumer = ONSFactory.createOrderedConsumer(properties(group));
            consumer.subscribe(topic, tags, (message, context) ->
                received(group, message, failures, holding) ? OrderAction.Success : OrderAction.Suspend);
            consumers.put(group, consumer);
        } else {
            Consumer consumer = ONSFactory.createConsumer(properties(group));
            consumer.subscribe(topic, tags, (message, context) ->
                received(group, message, failures, holding) ? Action.CommitMessage : Action.ReconsumeLater);
            consumers.put(group, consumer);
        }
        consumers.get(group).start();
        return null;
    }

    private Object close(JSONObject command) {
        consumers.remove(command.getString("member")).shutdown();
        return null;
    }

    private Properties properties(String group) {
        Properties properties = new Properties();
        options.forEach((name, value) -> properties.setProperty(name, (String) value));
        properties.setProperty(PropertyKeyConst.GROUP_ID, group);
        properties.putIfAbsent(PropertyKeyConst.SendMsgTimeoutMillis, "60000"); // its own is short for a cold JVM
        return properties;
    }

    private static Message made(JSONObject given) {
        Message message = new Message(
            given.getString("topic"), given.getString("tag"), given.getString("body").getBytes(UTF_8));
        if (given.containsKey("keys")) {
            message.setKey(given.getJSONArray("keys").getString(0)); // it has one
        }
        if (given.containsKey("start_deliver_ms")) {
            message.setStartDeliverTime(given.getLong("start_deliver_ms"));
        }
        if (given.containsKey("properties")) {
            given.getJSONObject("properties").forEach((name, text) ->
                message.putUserProperties(name, (String) text));
        }
        return message;
    }

    private static JSONObject sent(SendResult result) {
        return new JSONObject().fluentPut("message_id", result.getMessageId());
    }

    /** Tell of a message; false if this attempt is one of those that have to fail. */
    private static boolean received(String group, Message message, int failures, String holding) {
        JSONObject properties = new JSONObject();
        message.getUserProperties().forEach((name, text) -> properties.put((String) name, text));
        properties.put("start_deliver_ms", String.valueOf(message.getStartDeliverTime()));
        Lines.received(group, new JSONObject()
            .fluentPut("topic", message.getTopic())
            .fluentPut("body", new String(message.getBody(), UTF_8))
            .fluentPut("tag", message.getTag())
            .fluentPut("keys", message.getKey())
            .fluentPut("message_id", message.getMsgID())
            .fluentPut("queue_id", 0)
            .fluentPut("queue_offset", message.getOffset())
            .fluentPut("times", message.getReconsumeTimes())
            .fluentPut("properties", properties));
        if (new String(message.getBody(), UTF_8).equals(holding)) {
            Hold.await(holding);
        }
        return message.getReconsumeTimes() >= failures;
    }
}
