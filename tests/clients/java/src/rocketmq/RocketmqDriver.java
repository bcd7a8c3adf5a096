package rocketmq;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Hold;
import driver.Lines;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** Drives rocketmq-client, of 4.9 or 5.5, with its defaults but for the name server's address and the timeout of sends. */
public final class RocketmqDriver {
    private static final long WAIT_MS = 200_000;

    private final JSONObject options;
    private final String nameServer;
    private final RPCHook keys;
    private final int sendTimeoutMs;
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPushConsumer> pushing = new ConcurrentHashMap<>();
    private final Map<String, DefaultLitePullConsumer> polling = new ConcurrentHashMap<>();

    private RocketmqDriver(JSONObject options) {
        this.options = options;
        nameServer = options.getString("name_server"); // null: the client asks over HTTP
        // Its own is short for a JVM that is cold, on a busy machine.
        sendTimeoutMs = Objects.requireNonNullElse(options.getInteger("send_timeout_ms"), 60_000);
        keys = options.containsKey("access_key")
            ? new AclClientRPCHook(
                new SessionCredentials(options.getString("access_key"), options.getString("secret")))
            : null;
    }

    public static void main(String[] args) throws Exception {
        RocketmqDriver driver = new RocketmqDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.ofEntries(
            Map.entry("send", driver::send),
            Map.entry("send_async", driver::sendAsync),
            Map.entry("send_oneway", driver::sendOneway),
            Map.entry("send_batch", driver::sendBatch),
            Map.entry("send_orderly", driver::sendOrderly),
            Map.entry("send_in_transaction", command -> TransactionDriver.of(driver.options, command).send(command)),
            Map.entry("consume", driver::consume),
            Map.entry("release", Hold::release),
            Map.entry("queues", driver::queues),
            Map.entry("poll", driver::poll),
            Map.entry("pull", driver::pull),
            Map.entry("close", driver::close),
            Map.entry("offset_at", driver::offsetAt),
            Map.entry("find_by_key", driver::findByKey),
            Map.entry("find_by_id", driver::findById)));
    }

    private Object send(JSONObject command) throws Exception {
        return Outgoing.sent(producer(command).send(Outgoing.made(command)));
    }

    private Object sendAsync(JSONObject command) throws Exception {
        CompletableFuture<SendResult> done = new CompletableFuture<>();
        producer(command).send(Outgoing.made(command), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        });
        return Outgoing.sent(done.get());
    }

    private Object sendOneway(JSONObject command) throws Exception {
        producer(command).sendOneway(Outgoing.made(command));
        return null;
    }

    private Object sendBatch(JSONObject command) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (Object given : command.getJSONArray("messages")) {
            messages.add(Outgoing.made((JSONObject) given));
        }
        return Outgoing.sent(producer(command).send(messages));
    }

    /** To the queue that the number stands for. */
    private Object sendOrderly(JSONObject command) throws Exception {
        return Outgoing.sent(producer(command).send(
            Outgoing.made(command), Outgoing::chosen, command.getIntValue("number")));
    }

    /** Listen, as a {@link Listener} does. */
    private Object consume(JSONObject command) throws Exception {
        String group = command.getString("group");
        String name = Objects.requireNonNullElse(command.getString("member"), group);
        var consumer = new DefaultMQPushConsumer(command.getString("namespace"), group, keys);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        if (command.getBooleanValue("broadcasting")) {
            var model = consumer.getMessageModel(); // whose class has another package in 5.x
            consumer.setMessageModel(Enum.valueOf(model.getDeclaringClass(), "BROADCASTING"));
        }
        if (command.containsKey("start")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(command.getString("start")));
        }
        if (command.containsKey("commit_every_ms")) { // after 10 s for the first time
            consumer.setPersistConsumerOffsetInterval(command.getIntValue("commit_every_ms"));
        }
        if (command.containsKey("threads")) { // one keeps the order of messages
            consumer.setConsumeThreadMin(command.getIntValue("threads"));
            consumer.setConsumeThreadMax(command.getIntValue("threads"));
        }
        set(consumer, command.getJSONObject("settings"));
        Listener.listen(consumer, name, command);
        pushing.put(name, consumer);
        return null;
    }

    /** The queues of a topic that a consumer works on, once there are so many. */
    private Object queues(JSONObject command) throws Exception {
        return Listener.queues(pushing.get(command.getString("member"))
            .getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet(), command);
    }

    /** So many messages of a lite pull consumer, which stays open. */
    private Object poll(JSONObject command) throws Exception {
        String group = command.getString("group");
        DefaultLitePullConsumer consumer = polling.get(group);
        if (consumer == null) {
            consumer = new DefaultLitePullConsumer(group, keys);
            consumer.setNamesrvAddr(nameServer);
            consumer.subscribe(command.getString("topic"), "*");
            consumer.start();
            polling.put(group, consumer);
        }
        List<Object> found = new ArrayList<>();
        long until = System.currentTimeMillis() + WAIT_MS;
        while (found.size() < command.getIntValue("count") && System.currentTimeMillis() < until) {
            consumer.poll().forEach(message -> found.add(Listener.shown(message)));
        }
        return found;
    }

    /** What is in all queues from where the group's offset is, up to a limit; the offset is then moved on. */
    private Object pull(JSONObject command) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(command.getString("group"), keys);
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
        try {
            int limit = Objects.requireNonNullElse(command.getInteger("limit"), 32);
            List<Object> found = new ArrayList<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(command.getString("topic"))) {
                long from = Math.max(0, consumer.fetchConsumeOffset(queue, true));
                var result = consumer.pull(queue, "*", from, limit);
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(message -> found.add(Listener.shown(message)));
                }
                consumer.updateConsumeOffset(queue, result.getNextBeginOffset());
                consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
            }
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    private Object close(JSONObject command) {
        String name = command.getString("member");
        if (pushing.containsKey(name)) {
            pushing.remove(name).shutdown();
        } else {
            polling.get(name).commitSync(); // it commits by itself every five seconds, but not at its end
            polling.remove(name).shutdown();
        }
        return null;
    }

    /** The offset of what was stored at a time, in a topic of one queue. */
    private Object offsetAt(JSONObject command) throws Exception {
        DefaultMQProducer producer = producer(command);
        MessageQueue queue = producer.fetchPublishMessageQueues(command.getString("topic")).get(0);
        return producer.searchOffset(queue, command.getLong("instant_ms"));
    }

    private Object findByKey(JSONObject command) throws Exception {
        QueryResult result = producer(command).queryMessage(
            command.getString("topic"), command.getString("key"), 32, 0, Long.MAX_VALUE);
        return result.getMessageList().stream().map(Listener::shown).toList();
    }

    /** By an offset message id, or by a unique key. */
    private Object findById(JSONObject command) throws Exception {
        return Listener.shown(producer(command).viewMessage(
            command.getString("topic"), command.getString("message_id")));
    }

    private synchronized DefaultMQProducer producer(JSONObject command) throws Exception {
        String namespace = Objects.requireNonNullElse(command.getString("namespace"), "");
        String name = namespace + Objects.requireNonNullElse(command.getString("settings"), "");
        DefaultMQProducer producer = producers.get(name);
        if (producer == null) {
            producer = new DefaultMQProducer(namespace, "GID_java", keys);
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName("producer" + producers.size());
            producer.setSendMsgTimeout(sendTimeoutMs);
            set(producer, command.getJSONObject("settings"));
            producer.start();
            producers.put(name, producer);
        }
        return producer;
    }

    /** Set numbers and switches of a client by the names of their setters. */
    private static void set(ClientConfig client, JSONObject settings) throws Exception {
        for (String name : settings == null ? Set.<String>of() : settings.keySet()) {
            String setter = "set" + name.substring(0, 1).toUpperCase() + name.substring(1);
            Method method = Stream.of(client.getClass().getMethods())
                .filter(each -> each.getName().equals(setter) && each.getParameterCount() == 1)
                .findFirst().orElseThrow(() -> new IllegalArgumentException("no setting " + name));
            method.invoke(client, (Object) settings.getObject(name, method.getParameterTypes()[0]));
        }
    }
}
