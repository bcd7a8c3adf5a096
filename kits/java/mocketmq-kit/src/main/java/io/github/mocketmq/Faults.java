package io.github.mocketmq;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Injected faults: what goes wrong on purpose. A reset removes them. */
public final class Faults {
    private static final String PATH = "/v1/faults";

    private final JsonApi api;

    Faults(JsonApi api) {
        this.api = api;
    }

    /**
     * Adds a fault, as in {@code add("refuse", Map.of("operation", "send", "error", "SYSTEM_BUSY", "next", 1))}.
     *
     * @param kind what to do: {@code refuse}, {@code hold}, {@code deliver-late}, …
     * @param rule where, when and how, by the names in the JSON API; everything matches by default
     * @return the fault's name
     */
    public String add(String kind, Map<String, ?> rule) {
        Map<String, Object> fields = new LinkedHashMap<>(rule);
        fields.put("do", kind);
        return (String) api.post(PATH, fields).get("name");
    }

    /**
     * Removes a fault. Messages that it held are delivered, ports that it closed are opened.
     *
     * @param name the fault's name
     */
    public void remove(String name) {
        api.request("DELETE", JsonApi.path("faults", name), null);
    }

    /** Removes all faults. */
    public void clear() {
        api.request("DELETE", PATH, null);
    }

    /**
     * Lists the faults.
     *
     * @return rules and counts, by their names in the JSON API
     */
    @SuppressWarnings("unchecked")
    public List<Map<String, Object>> list() {
        return (List<Map<String, Object>>) api.get(PATH).get("faults");
    }
}
