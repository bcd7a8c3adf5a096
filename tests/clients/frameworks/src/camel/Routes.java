package camel;

import static org.apache.camel.component.rocketmq.RocketMQConstants.KEY;
import static org.apache.camel.component.rocketmq.RocketMQConstants.OVERRIDE_MESSAGE_KEY;

import org.apache.camel.ExchangePattern;
import org.apache.camel.builder.RouteBuilder;
import shop.Journal;
import shop.Order;

/** The ways of orders. */
final class Routes extends RouteBuilder {
    @Override
    public void configure() {
        from("direct:place").marshal().json()
            .to(ExchangePattern.InOnly, "rocketmq:orders?producerGroup=shop&sendTag=placed&waitForSendResult=true");

        from("rocketmq:orders?consumerGroup=billing&subscribeTags=placed").unmarshal().json(Order.class)
            .process(exchange -> Journal.bill(exchange.getMessage().getBody(Order.class)));

        from("rocketmq:orders?consumerGroup=reminding&subscribeTags=unpaid").unmarshal().json(Order.class)
            .process(exchange -> Journal.write("reminding", exchange.getMessage().getBody(Order.class).number()));

        from("direct:price").marshal().json()
            .to(ExchangePattern.InOut, "rocketmq:prices?producerGroup=asking"
                + "&replyToTopic=replies&replyToConsumerGroup=asking-replies&requestTimeoutMillis=200000");

        from("rocketmq:prices?consumerGroup=pricing").unmarshal().json(Order.class)
            .setHeader(OVERRIDE_MESSAGE_KEY, header(KEY))
            .setBody(exchange -> "order " + exchange.getMessage().getBody(Order.class).number() + " costs 7.00")
            .to(ExchangePattern.InOnly, "rocketmq:replies?producerGroup=pricing-replies");
    }
}
