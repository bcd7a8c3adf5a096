package admin;

import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.rocketmq.client.MQAdmin;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Topics by Java's interfaces, not by a command of mqadmin. */
final class Topics {
    private Topics() {
    }

    /** Create one as an "admin" or a "producer", at all brokers that the route of "key" names. */
    static Object create(JSONObject command) throws Exception {
        String name = command.getString("topic");
        if (command.getString("by").equals("admin")) {
            DefaultMQAdminExt admin = admin(command);
            try {
                create(admin, command.getString("key"), name, command.getIntValue("queues"));
            } finally {
                admin.shutdown();
            }
            return null;
        }
        DefaultMQProducer producer = new DefaultMQProducer("GID_creating");
        producer.setNamesrvAddr(command.getString("name_server"));
        producer.start();
        try {
            create(producer, command.getString("key"), name, command.getIntValue("queues"));
        } finally {
            producer.shutdown();
        }
        return null;
    }

    /** A topic's route, as JSON. */
    static Object route(JSONObject command) throws Exception {
        DefaultMQAdminExt admin = admin(command);
        try {
            return JSONObject.parse(admin.examineTopicRouteInfo(command.getString("topic")).toJson());
        } finally {
            admin.shutdown();
        }
    }

    private static DefaultMQAdminExt admin(JSONObject command) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(command.getString("name_server"));
        admin.start();
        return admin;
    }

    /** 5.x wants attributes as well. */
    private static void create(MQAdmin admin, String key, String topic, int queues) throws Exception {
        Method method = Stream.of(MQAdmin.class.getMethods())
            .filter(one -> one.getName().equals("createTopic") && one.getParameterTypes()[2] == int.class)
            .min((one, other) -> one.getParameterCount() - other.getParameterCount()).orElseThrow();
        if (method.getParameterCount() == 3) {
            method.invoke(admin, key, topic, queues);
        } else {
            method.invoke(admin, key, topic, queues, Map.of());
        }
    }
}
