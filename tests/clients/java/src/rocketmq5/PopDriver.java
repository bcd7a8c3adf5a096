package rocketmq5;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import rocketmq.Listener;

/** Drives rocketmq-client of 5.5 where it pops: its push consumer, and the requests that its parts make. */
public final class PopDriver {
    private static final long WAIT_MS = 60_000;
    private static final long INVISIBLE_MS = 90_000; // longer than the back-offs that tests wait for

    private final String nameServer;
    private final String address;
    private final DefaultMQProducer producer = new DefaultMQProducer("GID_pop");
    private final MQClientAPIImpl requests;
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();

    private PopDriver(JSONObject options) throws Exception {
        nameServer = options.getString("name_server");
        address = options.getString("broker");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        requests = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
    }

    public static void main(String[] args) throws Exception {
        PopDriver driver = new PopDriver(JSON.parseObject(args[0]));
        Lines.serve(Map.of(
            "set_mode", driver::setMode,
            "consume", driver::consume,
            "queues", driver::queues,
            "close", driver::close,
            "pop", driver::pop,
            "ack", driver::ack,
            "ack_all", driver::ackAll,
            "change", driver::change));
    }

    private Object setMode(JSONObject command) throws Exception {
        requests.setMessageRequestMode(
            address, command.getString("topic"), command.getString("group"),
            MessageRequestMode.valueOf(command.getString("mode")), command.getIntValue("share"), WAIT_MS);
        return null;
    }

    /** Listen, with the queues that the broker divides: every message fails as often as "failures" says. */
    private Object consume(JSONObject command) throws Exception {
        String group = command.getString("group");
        String name = Objects.requireNonNullElse(command.getString("member"), group);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(INVISIBLE_MS);
        consumer.setMaxReconsumeTimes(Objects.requireNonNullElse(command.getInteger("max"), -1));
        Listener.listen(consumer, name, command);
        consumers.put(name, consumer);
        return null;
    }

    /** The queues of a topic that a consumer pops, once there are so many; -1 stands for all of them. */
    private Object queues(JSONObject command) throws Exception {
        return Listener.queues(consumers.get(command.getString("member"))
            .getDefaultMQPushConsumerImpl().getRebalanceImpl().getPopProcessQueueTable().keySet(), command);
    }

    private Object close(JSONObject command) {
        consumers.remove(command.getString("member")).shutdown();
        return null;
    }

    /** As RocketMQ's proxy does, whose consumers alone pop in order. */
    private Object pop(JSONObject command) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(command.getString("group"));
        header.setTopic(command.getString("topic"));
        header.setQueueId(-1);
        header.setMaxMsgNums(command.getIntValue("count"));
        header.setInvisibleTime(60_000);
        header.setPollTime(command.getIntValue("wait_ms"));
        // Without a born time, because a broker refuses a pop that takes half a second to arrive.
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(command.getBooleanValue("orderly"));
        header.setAttemptId(command.getString("attempt"));
        CompletableFuture<PopResult> done = new CompletableFuture<>();
        requests.popMessageAsync("broker-a", address, header, WAIT_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        });
        PopResult result = done.get();
        return result.getPopStatus() == PopStatus.FOUND
            ? result.getMsgFoundList().stream().map(Listener::shown).toList()
            : List.of();
    }

    private Object ack(JSONObject command) throws Exception {
        String handle = command.getString("handle");
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(command.getString("group"));
        header.setTopic(
            ExtraInfoUtil.getRealTopic(parts, command.getString("topic"), command.getString("group")));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        Answer done = new Answer();
        requests.ackMessageAsync(address, WAIT_MS, done, header);
        return done.get().getStatus();
    }

    private Object ackAll(JSONObject command) throws Exception {
        Answer done = new Answer();
        requests.batchAckMessageAsync(
            address, WAIT_MS, done, command.getString("topic"), command.getString("group"),
            command.getJSONArray("handles").toJavaList(String.class));
        return done.get().getStatus();
    }

    /** The new handle, or null. */
    private Object change(JSONObject command) throws Exception {
        String handle = command.getString("handle");
        String[] parts = ExtraInfoUtil.split(handle);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(command.getString("group"));
        header.setTopic(
            ExtraInfoUtil.getRealTopic(parts, command.getString("topic"), command.getString("group")));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        header.setInvisibleTime(command.getLong("invisible_ms"));
        Answer done = new Answer();
        requests.changeInvisibleTimeAsync("broker-a", address, header, WAIT_MS, done);
        return done.get().getExtraInfo();
    }

    private static final class Answer extends CompletableFuture<AckResult> implements AckCallback {
        @Override
        public void onSuccess(AckResult result) {
            complete(result);
        }

        @Override
        public void onException(Throwable error) {
            completeExceptionally(error);
        }
    }
}
