package driver;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** JSON commands, a line each, from stdin; answers, and what consumers receive, as lines of stdout. */
public final class Lines {
    private static final PrintStream ANSWERS = System.out;

    /** What a command asks for; its result is the answer. */
    public interface Call {
        Object on(JSONObject command) throws Exception;
    }

    /** Keep stdout for answers: whatever a library prints from now on goes to stderr. */
    public static void takeStdout() {
        System.setOut(System.err);
    }

    /** Carry out commands side by side until stdin ends, and then the process. */
    public static void serve(Map<String, Call> calls) throws IOException {
        takeStdout();
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            JSONObject command = JSON.parseObject(line);
            threads.execute(() -> tell(answer(calls, command)));
        }
        System.exit(0); // the clients' threads would go on
    }

    /** A consumer got a message. */
    public static void received(String member, Map<String, Object> message) {
        tell(new JSONObject().fluentPut("member", member).fluentPut("message", message));
    }

    private static JSONObject answer(Map<String, Call> calls, JSONObject command) {
        JSONObject answer = new JSONObject().fluentPut("id", command.get("id"));
        try {
            return answer.fluentPut("result", calls.get(command.getString("call")).on(command));
        } catch (Throwable error) { // whatever it is, the test judges it
            return answer.fluentPut("error", error.toString());
        }
    }

    private static synchronized void tell(JSONObject what) {
        ANSWERS.println(what.toJSONString());
        ANSWERS.flush();
    }
}
