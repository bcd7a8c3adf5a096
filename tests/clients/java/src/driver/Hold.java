package driver;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/** Messages on which an application works until a test releases them. */
public final class Hold {
    private static final Map<String, CountDownLatch> HELD = new ConcurrentHashMap<>();

    /** Wait until the test releases this body. */
    public static void await(String body) {
        try {
            of(body).await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The call of a test: release the body. */
    public static Object release(JSONObject command) {
        of(command.getString("body")).countDown();
        return null;
    }

    private static CountDownLatch of(String body) {
        return HELD.computeIfAbsent(body, any -> new CountDownLatch(1));
    }
}
