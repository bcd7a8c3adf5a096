package admin;

import com.alibaba.fastjson.JSONObject;
import driver.Lines;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's command line, mqadmin, without starting Java for each command, and its Java interface. */
public final class MqadminDriver {
    public static void main(String[] args) throws Exception {
        Lines.serve(Map.of(
            "run", MqadminDriver::run,
            "create_topic", Topics::create,
            "route", Topics::route));
    }

    /** What a command printed, errors among it: one at a time, since it prints to the streams of the process. */
    private static synchronized Object run(JSONObject command) throws Exception {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true);
        System.setOut(both);
        System.setErr(both);
        try {
            forgetCommands();
            MQAdminStartup.main0(command.getJSONArray("arguments").toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return printed.toString();
    }

    /** Those of the run before, which are found first, and some of which can be used only once. */
    private static void forgetCommands() throws Exception {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) { // whose name is another one in 5.x
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
