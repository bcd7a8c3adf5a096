package io.github.mocketmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void whatIsWrittenIsReadAgain() {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("text", "\"\\/\b\f\n\r\t\u0001 Grüße 🚚");
        value.put("numbers", List.of(0L, -7L, 1795644191870L, 1.5));
        value.put("words", Arrays.asList(true, false, null));
        value.put("empty", List.of(Map.of(), List.of(), ""));
        assertEquals(value, Json.parse(Json.write(value)));
    }

    @Test
    void spacesAndEscapesMayStandAnywhere() {
        assertEquals(Map.of("a", List.of(1L, "ü/")), Json.parse(" {\n\"\\u0061\" :\t[ 1 , \"\\u00fc\\/\" ]\r} "));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":[1 2]}", "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\x\"}", "{\"a\":tru}", "{\"a\":1-}", "{} {}", "<html>"})
    void anythingElseIsRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @Test
    void durationsAreWhatTheApiTakes() {
        assertEquals("1800s", Json.duration(Duration.ofMinutes(30)));
        assertEquals("0.0015s", Json.duration(Duration.ofNanos(1_500_000)));
        assertEquals("0s", Json.duration(Duration.ZERO));
    }
}
