package rocketmq;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Hold;
import driver.Lines;
import java.util.Map;
import java.util.Objects;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Drives a rocketmq-client as old as 4.3: sends, also in transactions, and listens. */
public final class OldestDriver {
    public static void main(String[] args) throws Exception {
        JSONObject options = JSON.parseObject(args[0]);
        String nameServer = options.getString("name_server");
        DefaultMQProducer producer = new DefaultMQProducer("GID_java");
        producer.setNamesrvAddr(nameServer);
        // Its own is short for a cold JVM.
        producer.setSendMsgTimeout(Objects.requireNonNullElse(options.getInteger("send_timeout_ms"), 60_000));
        producer.start();
        Lines.serve(Map.of(
            "send", command -> Outgoing.sent(producer.send(Outgoing.made(command))),
            "send_orderly", command -> Outgoing.sent(producer.send(
                Outgoing.made(command), Outgoing::chosen, command.getIntValue("number"))),
            "send_in_transaction", command -> TransactionDriver.of(options, command).send(command),
            "release", Hold::release,
            "consume", command -> consume(nameServer, command)));
    }

    /** Listen: every message fails as often as "failures" says. */
    private static Object consume(String nameServer, JSONObject command) throws Exception {
        String group = command.getString("group");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(group);
        Listener.listen(consumer, group, command);
        return null;
    }
}
