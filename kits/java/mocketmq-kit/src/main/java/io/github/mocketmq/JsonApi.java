package io.github.mocketmq;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;

/** Requests to a broker. Answers have no time limit, since a move of the clock may take long. */
final class JsonApi {
    private static final HttpClient HTTP = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(10))
        .proxy(HttpClient.Builder.NO_PROXY)
        .build();

    private final String url;
    private final String token;

    JsonApi(String url, String token) {
        this.url = url;
        this.token = token;
    }

    static String path(String... segments) {
        StringBuilder path = new StringBuilder("/v1");
        for (String segment : segments) {
            path.append('/').append(URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20"));
        }
        return path.toString();
    }

    Map<String, Object> get(String path) {
        return Json.parse(request("GET", path, null));
    }

    Map<String, Object> post(String path, Map<String, ?> body) {
        return Json.parse(request("POST", path, Json.write(body)));
    }

    String request(String method, String path, String body) {
        return new String(bytes(method, path, body), StandardCharsets.UTF_8);
    }

    byte[] bytes(String method, String path, String body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).method(method, body == null
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofString(body));
        if (body != null) {
            request.header("Content-Type", "application/json");
        }
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        try {
            HttpResponse<byte[]> response = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
            if (response.statusCode() >= 300) {
                throw new BrokerException(problem(new String(response.body(), StandardCharsets.UTF_8), method + " " + path));
            }
            return response.body();
        } catch (IOException error) {
            throw new BrokerException("the broker at " + url + " did not answer: " + error, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new BrokerException("interrupted while waiting for the broker at " + url, error);
        }
    }

    /** Returns the detail of the broker's answer. The answer of another server need not have one. */
    private String problem(String body, String request) {
        try {
            Object detail = Json.parse(body).get("detail");
            if (detail != null) {
                return detail.toString();
            }
        } catch (IllegalArgumentException | ClassCastException error) {
            // told below
        }
        return url + " does not look like a mocketmq broker: it answered " + request + " with " + body;
    }
}
