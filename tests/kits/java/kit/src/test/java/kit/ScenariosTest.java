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
            (String) scenario.get("name"), () -> new Scenario(mq).run((List<Map<String, Object>>) scenario.get("steps"))));
    }
}
