"""Health, reset, metrics, tokens, and unsupported requests, over HTTP."""

import asyncio
import logging
import socket
from typing import Any, get_type_hints

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mocketmq import __version__
from mocketmq.client.info import Info as TypedInfo
from mocketmq.client.info import OpenPort as TypedOpenPort
from mocketmq.client.info import OpenPorts as TypedOpenPorts
from mocketmq.compiled import is_compiled
from mocketmq.errors import ListenError, StoreUnavailableError
from mocketmq.hosts import with_port
from mocketmq.http_api.operations import Info
from mocketmq.open_ports import OpenPort, OpenPorts
from tests.support.api import Api, running_api
from tests.support.patience import PATIENCE_S


async def raw(api: Api, request: bytes) -> bytes:
    """Send these bytes, and return the server's answer."""
    host, port = api.emulator.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return answer


async def test_health_and_readiness(api: Api) -> None:
    assert await api.ok("GET", "/healthz") == {"status": "ok"}
    assert await api.ok("GET", "/readyz") == {"status": "ready"}
    api.emulator.http.api.is_ready = False
    assert "did you mean /healthz?" in (await api.refused(404, "GET", "/health"))["detail"]
    assert (await api.refused(503, "GET", "/readyz"))["type"] == "/problems/stopping"
    assert await api.ok("GET", "/healthz") == {"status": "ok"}


async def test_the_info_of_the_broker(api: Api) -> None:
    info = await api.ok("GET", "/v1/info")
    assert info["data"].endswith("data")
    assert info["uptime_ms"] >= 0
    assert {name: info[name] for name in info if name not in ("data", "uptime_ms", "doors")} == {
        "version": __version__,
        "compiled": is_compiled(),
        "profile": "exact",
        "clock": "manual",
        "levels": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "durability": "full",
        "run": 1,
        "max_message_bytes": 4 << 20,
        "max_batch": 1000,
        "max_long_poll_ms": 30_000,
        "max_wait_ms": 30_000,
    }


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"remoting": False, "grpc": False}, ["http"]),
        ({"aliyun_port": 0}, ["http", "aliyun", "namesrv", "broker", "vip", "grpc"]),
        ({"host": "::1"}, ["http", "namesrv", "broker", "vip", "grpc"]),
    ],
)
async def test_info_names_every_open_door(settings: dict[str, Any], names: list[str]) -> None:
    async with running_api(**settings) as api:
        info = await api.ok("GET", "/v1/info")
        doors: dict[str, Any] = info["doors"]
        assert list(doors) == names
        assert msgspec.to_builtins(api.emulator.doors) == doors
        host = settings.get("host", "127.0.0.1")
        for name, door in doors.items():
            scheme = "http://" if name in ("http", "aliyun") else ""
            assert door["address"] == f"{scheme}{with_port(host, door['port'])}"
            _, writer = await asyncio.open_connection(host, door["port"])
            writer.close()
            await writer.wait_closed()


def test_typed_info_of_the_client_matches() -> None:
    for typed, struct in ((TypedInfo, Info), (TypedOpenPorts, OpenPorts), (TypedOpenPort, OpenPort)):
        assert set(get_type_hints(typed)) == {field.name for field in msgspec.structs.fields(struct)}


async def test_reset_covers_one_topic_or_everything(api: Api) -> None:
    for topic in ("orders", "bills"):
        await api.send(topic)
        await api.send(topic, delay_level=1)
    now_ms = (await api.ok("GET", "/v1/clock"))["now_ms"]
    assert await api.ok("POST", "/v1/reset", {"topic": "orders"}) == {"reset": "orders", "now_ms": now_ms}
    assert await api.receive("orders") == []
    assert [one["real_topic"] for one in (await api.ok("GET", "/v1/delayed"))["messages"]] == ["bills"]
    assert await api.ok("POST", "/v1/reset") == {"reset": "all", "now_ms": now_ms}
    assert await api.receive("bills") == []
    assert (await api.ok("GET", "/v1/clock"))["pending"] == 0
    assert (await api.refused(404, "POST", "/v1/reset", {"topic": "none"}))["title"] == "Topic not found"
    unknown = await api.refused(400, "POST", "/v1/reset", {"all": True})
    assert unknown["allowed"] == "only topic, clock, forget"
    await api.ok("POST", "/v1/clock/advance", {"by": "1h"})
    assert (await api.ok("POST", "/v1/reset", {"clock": "start"}))["now_ms"] == now_ms
    assert (await api.ok("POST", "/v1/reset", {"clock": now_ms + 5}))["now_ms"] == now_ms + 5
    assert (await api.refused(400, "POST", "/v1/reset", {"clock": "end"}))["field"] == "clock"
    assert (await api.refused(400, "POST", "/v1/reset", {"clock": "start", "topic": "a"}))["field"] == "clock"
    await api.ok("POST", "/v1/faults", {"do": "close", "operation": "send"})
    assert (await api.refused(409, "POST", "/v1/reset", {"clock": now_ms - 1}))["title"] == "Clock"
    assert len((await api.ok("GET", "/v1/faults"))["faults"]) == 1


async def test_metrics(api: Api) -> None:
    await api.send()
    await api.send(delay_level=1)
    await api.send(delay_level=3)
    await api.ok("POST", "/v1/clock/next")
    await api.receive(max=1)
    await api.call("GET", "/v1/nothing")
    answer = await api.call("GET", "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name.removeprefix("mocketmq_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    clock = await api.ok("GET", "/v1/clock")
    expected = {
        ("sent_messages_total",): 3,
        ("delivered_delayed_messages_total",): 1,
        ("early_messages_total",): 0,
        ("store_failures_total",): 0,
        ("pending_messages", "1", "levels"): 0,
        ("pending_messages", "3", "levels"): 1,
        ("next_due_seconds", "3", "levels"): 9,
        ("overdue_seconds", "3", "levels"): 0,
        ("pending_messages", "", "directories"): 0,
        ("group_lag_messages", "billing", "orders"): 2,
        ("group_in_flight_messages", "billing", "orders"): 1,
        ("long_polls",): 0,
        ("http_requests_total", "POST", "/v1/topics/{topic}/messages", "201"): 3,
        ("http_requests_total", "GET", "unmatched", "404"): 1,
        ("clock_seconds", "manual"): clock["now_ms"] / 1000,
        ("build_info", "exact", __version__): 1,
    }
    assert {name: samples.get(name) for name in expected} == expected
    assert samples["commits_total",] > 3


async def test_missing_paths_and_methods(api: Api) -> None:
    for path in ("/v1", "/v1/topics/a/", "/v2/topics", "/v1/topics/a/b/c"):
        problem = await api.refused(404, "GET", path)
        assert (problem["type"], problem["title"]) == ("/problems/no-such-path", "No such path")
    for path in ("/v1/topics/", "/v1/topics//queues/0/messages"):
        assert (await api.refused(400, "GET", path))["field"] == "topic"
    answer = await api.call("PATCH", "/v1/topics/orders")
    allowed = "DELETE, GET, PUT"
    assert (answer.status, answer.headers["Allow"]) == (405, allowed)
    assert (answer.body["type"], answer.body["allowed"]) == ("/problems/method-not-allowed", allowed)
    assert (await api.call("HEAD", "/healthz")).status == 405


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"by":"1s"}x', b'{"by":"\xff"}', b'{"by":"\\ud800"}', b"nonsense"]
)
async def test_bodies_that_are_not_json(api: Api, body: bytes) -> None:
    problem = await api.refused(400, "POST", "/v1/clock/advance", body)
    assert (problem["type"], problem["title"]) == ("/problems/malformed-json", "Malformed JSON")
    assert (problem["field"], problem["allowed"]) == ("body", "a JSON object in UTF-8")


async def test_whole_numbers_may_come_as_floats(api: Api) -> None:
    sent = await api.send(queue_id=1.0, delay_level=3.0, properties={"a": "1.0"})
    assert (sent["queue_id"], sent["delay_level"]) == (1, 3)


async def test_oversized_body_is_refused_before_it_is_read() -> None:
    async with running_api(max_message_bytes=1024) as api:
        limit = 2 * 1024 + (1 << 20)
        path = b"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: h\r\n"
        header = b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        assert (await raw(api, path + header % (limit + 1))).startswith(b"HTTP/1.1 413 ")
        assert (await raw(api, path + header % limit)).startswith(b"HTTP/1.1 100 ")
        problem = await api.refused(413, "POST", "/v1/topics/orders/messages", b" " * (limit + 1))
        assert (problem["type"], problem["allowed"]) == ("/problems/body-too-large", f"at most {limit} bytes")
        # A body of unknown length.
        answer = await api.call("POST", "/v1/topics/orders/messages", b" " * (limit + 1), chunked=True)
        assert (answer.status, answer.body["type"]) == (413, "/problems/body-too-large")


async def test_every_request_but_health_needs_the_token() -> None:
    async with running_api(token="s3cret") as api:  # noqa: S106 - guards nothing
        for path in ("/healthz", "/readyz"):
            await api.ok("GET", path)
        for path in ("/v1/topics", "/metrics", "/openapi.json", "/docs", "/v1/nothing"):
            answer = await api.call("GET", path)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert answer.body["type"] == "/problems/unauthorized"
        for given in ("Bearer wrong", "s3cret", "Bearer s3cre", "bearer ünïcode"):
            answer = await api.call("GET", "/v1/topics", headers={"Authorization": given})
            assert answer.status == 401
        answer = await api.call("GET", "/v1/topics", headers={"Authorization": "Bearer s3cret"})
        assert answer.status == 200


@pytest.mark.interpreted
async def test_a_refusing_store_and_a_defect_are_distinguished(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(error: Exception) -> None:
        raise error

    path = "/v1/topics/orders/messages"
    broker = api.emulator.broker
    monkeypatch.setattr(broker.sender, "send", lambda _: fail(StoreUnavailableError("the disk is full")))
    problem = await api.refused(503, "POST", path, {"body": "x"})
    assert (problem["type"], problem["detail"]) == ("/problems/store-unavailable", "the disk is full")
    assert caplog.records == []
    monkeypatch.setattr(broker.sender, "send", lambda _: fail(ZeroDivisionError("oops")))
    with caplog.at_level(logging.ERROR):
        problem = await api.refused(500, "POST", path, {"body": "x"})
    assert (problem["type"], "ZeroDivisionError" in problem["detail"]) == ("/problems/internal", True)
    assert caplog.records[-1].exc_info


async def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}"):
            async with running_api(http_port=port):
                pass


async def test_closing_twice_is_allowed_and_ends_readiness() -> None:
    async with running_api() as api:
        await api.emulator.http.close()
        await api.emulator.http.close()
        assert not api.emulator.http.api.is_ready


async def test_the_docs_need_no_network(api: Api) -> None:
    page = await api.call("GET", "/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"//" not in page.body.replace(b"// ", b"")
    assert b'fetch("openapi.json")' in page.body
