import mocketmq.AckIn;
import mocketmq.AdvanceIn;
import mocketmq.ApiClient;
import mocketmq.ApiException;
import mocketmq.ClockApi;
import mocketmq.ConsumingApi;
import mocketmq.MessageIn;
import mocketmq.Problem;
import mocketmq.ReceiveIn;
import mocketmq.SeenApi;
import mocketmq.SendingApi;
import mocketmq.WaitIn;

/** Sends a delayed message, moves the clock, waits, and consumes, by a generated client. */
public class Delayed {
    public static void main(String[] arguments) throws Exception {
        var client = new ApiClient();
        client.updateBaseUri(arguments[0]);
        var clock = new ClockApi(client);
        var seen = new SeenApi(client);
        var consuming = new ConsumingApi(client);

        var message = new MessageIn().body("{\"order\": {\"id\": 7}}").delay("30m");
        var sent = new SendingApi(client).send("orders", message);
        equal(sent.getDueMs() - sent.getStoreMs(), 30 * 60_000L);

        equal(clock.advance(new AdvanceIn().by("30m")).getFired(), 1L);

        var wanted = new WaitIn().delivered(1L).wait("5s").putJsonPathItem("$.order.id", 7);
        var waited = seen.wait("orders", wanted);
        equal(waited.getReached(), true);
        equal(waited.getMessages().get(0).getMessageId(), sent.getMessageId());

        var received = consuming.receive("billing", new ReceiveIn().topic("orders"));
        consuming.acknowledge("billing", new AckIn().addReceiptsItem(received.getMessages().get(0).getReceipt()));
        equal(seen.leaks("billing", null, null, null).getCount(), 0L);

        try {
            clock.advance(new AdvanceIn().by("soon"));
            throw new AssertionError("soon is no duration");
        } catch (ApiException refused) {
            equal(refused.getCode(), 400);
            equal(client.getObjectMapper().readValue(refused.getResponseBody(), Problem.class).getField(), "by");
        }
        System.out.println("done");
    }

    private static void equal(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError(found + " instead of " + wanted);
    }
}
