package spring;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import shop.Journal;
import shop.Order;

/** A shop on Spring Boot and rocketmq-spring-boot-starter. */
@SpringBootApplication
public class Shop {
    public static void main(String[] args) throws Exception {
        Lines.takeStdout();
        String nameServer = JSON.parseObject(args[0]).getString("name_server");
        Orders orders = SpringApplication.run(Shop.class, "--name-server=" + nameServer).getBean(Orders.class);
        Lines.serve(Map.of(
            "place", command -> orders.place(order(command)),
            "place_async", command -> orders.placeAsync(order(command)).get(),
            "remind", command -> orders.remind(order(command), command.getIntValue("level")),
            "remind_in", command -> orders.remindIn(order(command), command.getLongValue("seconds")),
            "pack", command -> orders.pack(order(command), command.getString("step")),
            "pay", command -> orders.pay(order(command), command.getString("state")),
            "price", command -> orders.price(order(command), command.getLongValue("timeout_ms")),
            "price_async", command -> orders.priceAsync(order(command), command.getLongValue("timeout_ms")).get(),
            "next", Journal::next));
    }

    private static Order order(JSONObject command) {
        return new Order(command.getString("order"), command.getIntValue("declines"));
    }
}
