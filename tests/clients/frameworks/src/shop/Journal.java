package shop;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;

/** What each department did with the orders it got, for the tests to read. */
public final class Journal {
    private static final Map<String, BlockingQueue<Object>> ENTRIES = new ConcurrentHashMap<>();
    private static final Map<String, Integer> ATTEMPTS = new ConcurrentHashMap<>();

    public static void write(String department, Object entry) {
        of(department).add(entry);
    }

    /** Note another attempt of billing. Throws IllegalStateException if the bank declines. */
    public static void bill(Order order) {
        int attempt = ATTEMPTS.merge(order.number(), 1, Integer::sum);
        write("billing", order.number() + ", attempt " + attempt);
        if (attempt <= order.declines()) {
            throw new IllegalStateException("the bank declined order " + order.number());
        }
    }

    /** A call of the tests: the next entry of a department, once there is one. */
    public static Object next(JSONObject command) throws InterruptedException {
        return of(command.getString("of")).take();
    }

    private static BlockingQueue<Object> of(String department) {
        return ENTRIES.computeIfAbsent(department, any -> new LinkedBlockingQueue<>());
    }
}
