package camel;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.util.Map;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.main.Main;
import shop.Journal;
import shop.Order;

/** A shop on Apache Camel and its component for RocketMQ. */
public final class Shop {
    public static void main(String[] args) throws Exception {
        Lines.takeStdout();
        String nameServer = JSON.parseObject(args[0]).getString("name_server");
        Main camel = new Main();
        camel.addInitialProperty("camel.component.rocketmq.namesrv-addr", nameServer);
        camel.configure().addRoutesBuilder(new Routes());
        camel.start();
        ProducerTemplate orders = camel.getCamelTemplate();
        Lines.serve(Map.of(
            "place", command -> orders.requestBody("direct:place", order(command)),
            "price", command -> orders.requestBody("direct:price", order(command), String.class),
            "next", Journal::next));
    }

    private static Order order(JSONObject command) {
        return new Order(command.getString("order"), command.getIntValue("declines"));
    }
}
