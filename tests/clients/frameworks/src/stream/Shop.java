package stream;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import java.util.function.Consumer;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.stream.function.StreamBridge;
import org.springframework.context.annotation.Bean;
import org.springframework.messaging.support.MessageBuilder;
import shop.Journal;
import shop.Order;

/** A shop on Spring Cloud Stream and its binder for RocketMQ. */
@SpringBootApplication
public class Shop {
    private final StreamBridge bridge;

    Shop(StreamBridge bridge) {
        this.bridge = bridge;
    }

    public static void main(String[] args) throws Exception {
        Lines.takeStdout();
        String nameServer = JSON.parseObject(args[0]).getString("name_server");
        Shop shop = SpringApplication.run(Shop.class, "--name-server=" + nameServer).getBean(Shop.class);
        Lines.serve(Map.of(
            "place", command -> shop.send("orders-out-0", order(command), "TAGS", "placed"),
            "remind", command -> shop.send(
                "orders-out-0", order(command), "TAGS", "unpaid", "DELAY", command.getString("level")),
            "pack", command -> shop.send(
                "parcels-out-0", command.getString("order") + " " + command.getString("step"),
                "order", command.getString("order")),
            "pay", command -> shop.send(
                "payments-out-0", order(command),
                "KEYS", command.getString("order"), "state", command.getString("state")),
            "next", Journal::next));
    }

    private Object send(String binding, Object payload, String... headers) {
        MessageBuilder<Object> message = MessageBuilder.withPayload(payload);
        for (int i = 0; i < headers.length; i += 2) {
            message.setHeader(headers[i], headers[i + 1]);
        }
        return bridge.send(binding, message.build());
    }

    @Bean
    Consumer<Order> billing() {
        return Journal::bill;
    }

    @Bean
    Consumer<Order> reminding() {
        return order -> Journal.write("reminding", order.number());
    }

    @Bean
    Consumer<String> packing() {
        return step -> Journal.write("packing", step);
    }

    @Bean
    Consumer<Order> accounting() {
        return order -> Journal.write("accounting", order.number());
    }

    private static Order order(JSONObject command) {
        return new Order(command.getString("order"), command.getIntValue("declines"));
    }
}
