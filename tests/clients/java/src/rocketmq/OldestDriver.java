package rocketmq;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Drives a rocketmq-client as old as 4.3: sends, and listens. */
public final class OldestDriver {
    public static void main(String[] args) throws Exception {
        String nameServer = JSON.parseObject(args[0]).getString("name_server");
        DefaultMQProducer producer = new DefaultMQProducer("GID_java");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(60_000); // its own is short for a cold JVM
        producer.start();
        Lines.serve(Map.of(
            "send", command -> Outgoing.sent(producer.send(Outgoing.made(command))),
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
