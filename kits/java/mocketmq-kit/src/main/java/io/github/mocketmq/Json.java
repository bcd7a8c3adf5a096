package io.github.mocketmq;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON, so that the kit brings no library that could differ from the application's. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads an object: strings, Long, Double, Boolean, null, lists and maps in the text's order. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> parse(String text) {
        Json reader = new Json(text);
        Object value = reader.value();
        reader.space();
        if (reader.at < text.length()) {
            throw reader.wrong();
        }
        return (Map<String, Object>) value;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** Writes a duration as the API takes it, such as {@code 1.5s}. */
    static String duration(Duration duration) {
        return BigDecimal.valueOf(duration.toNanos(), 9).stripTrailingZeros().toPlainString() + "s";
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                quote(String.valueOf(entry.getKey()), out.append(before));
                write(entry.getValue(), out.append(':'));
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Iterable) {
            out.append('[');
            for (Iterator<?> items = ((Iterable<?>) value).iterator(); items.hasNext();) {
                write(items.next(), out);
                out.append(items.hasNext() ? "," : "");
            }
            out.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ' || Character.isSurrogate(letter)) {
                out.append(String.format("\\u%04x", (int) letter)); // half a pair would not survive UTF-8
            } else {
                out.append(letter);
            }
        }
        out.append('"');
    }

    private Object value() {
        space();
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        for (boolean more = !take('}'); more; more = !end('}')) {
            space();
            String name = string();
            if (!take(':')) {
                throw wrong();
            }
            found.put(name, value());
        }
        return found;
    }

    private List<Object> array() {
        List<Object> found = new ArrayList<>();
        at++;
        for (boolean more = !take(']'); more; more = !end(']')) {
            found.add(value());
        }
        return found;
    }

    /** Steps over the bracket that closes, which ends a list, or over the comma that continues it. */
    private boolean end(char bracket) {
        if (take(bracket)) {
            return true;
        }
        if (!take(',')) {
            throw wrong();
        }
        return false;
    }

    private String string() {
        if (peek() != '"') {
            throw wrong();
        }
        StringBuilder found = new StringBuilder();
        for (at++; peek() != '"'; at++) {
            found.append(peek() == '\\' ? escaped() : peek());
        }
        at++;
        return found.toString();
    }

    private char escaped() {
        at++;
        int place = "\"\\/bfnrt".indexOf(peek());
        if (place >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(place);
        }
        if (peek() != 'u' || at + 4 >= text.length()) {
            throw wrong();
        }
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
    }

    private Number number() {
        int from = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(from, at);
        try {
            return digits.matches("-?\\d{1,18}") ? (Number) Long.valueOf(digits) : (Number) Double.valueOf(digits);
        } catch (NumberFormatException error) {
            throw wrong();
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
        return value;
    }

    private boolean take(char wanted) {
        space();
        if (peek() != wanted) {
            return false;
        }
        at++;
        return true;
    }

    private char peek() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at character " + at + ": " + text);
    }
}
