package kit;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The scenarios that all kits pass, in the file that the system property {@code scenarios} names. */
@MocketMqTest
class ScenariosTest {
    @TestFactory
    @SuppressWarnings("unchecked")
    Stream<DynamicTest> scenarios(MocketMq mq) throws IOException {
        Map<String, Object> file = new ObjectMapper().readValue(new File(System.getProperty("scenarios")), Map.class);
        return ((List<Map<String, Object>>) file.get("scenarios")).stream().map(scenario -> DynamicTest.dynamicTest(
            (String) scenario.get("name"), () -> run(mq, scenario)));
    }

    @SuppressWarnings("unchecked")
    private static void run(MocketMq usual, Map<String, Object> scenario) throws IOException {
        List<Map<String, Object>> steps = (List<Map<String, Object>>) scenario.get("steps");
        if (!scenario.containsKey("brokers")) {
            new Scenario(usual).run(steps);
            return;
        }
        String brokers = scenario.get("brokers").toString();
        String nameServers = scenario.getOrDefault("name_servers", 1).toString();
        try (MocketMq cluster = MocketMq.start("--brokers", brokers, "--name-servers", nameServers)) {
            new Scenario(cluster).run(steps);
        }
    }
}
