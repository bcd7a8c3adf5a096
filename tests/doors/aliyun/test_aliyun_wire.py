"""Aliyun's HTTP protocol, byte by byte: connections, headers, long polls, access, and its own port."""

import asyncio
import re
from collections.abc import AsyncIterator
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.errors import ListenError, SettingError
from mocketmq.settings import Settings
from mocketmq_compat.aliyun_http.signed_text import sign, string_to_sign
from tests.support.aliyun import Aliyun, running_aliyun
from tests.support.network import quiet_port
from tests.support.patience import PATIENCE_S
from tests.support.process import forked_broker
from tests.support.waiting import Waiting

MESSAGE = b"<Message><MessageBody>a</MessageBody></Message>"
HANDLES = b"<ReceiptHandles><ReceiptHandle>%s</ReceiptHandle></ReceiptHandles>"
POLL = "/topics/orders/messages?consumer=GID_a&numOfMessages=1&waitseconds=30"
TOKEN = "s3cret"  # noqa: S105 - guards nothing


@pytest.fixture
async def aliyun() -> AsyncIterator[Aliyun]:
    async with running_aliyun() as aliyun:
        yield aliyun


@pytest.fixture
def waiting(aliyun: Aliyun) -> Waiting:
    return Waiting(aliyun.broker.polls)


class Wire:
    """One connection that sends and receives bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, method: str, target: str, body: bytes = b"", *headers: str) -> tuple[str, bytes]:
        """Send a request, and return head and body of the answer."""
        self.send(method, target, body, *headers)
        return await self.answer()

    def send(self, method: str, target: str, body: bytes = b"", *headers: str) -> None:
        lines = [
            f"{method} {target} HTTP/1.1",
            "Host: broker",
            f"Content-Length: {len(body)}",
            *headers,
            "",
            "",
        ]
        self.writer.write("\r\n".join(lines).encode() + body)

    async def answer(self) -> tuple[str, bytes]:
        head = await self.head()
        length = re.search(r"\r\nContent-Length: (\d+)\r\n", head)
        return head, await self.reader.readexactly(int(length[1])) if length else b""

    async def head(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return (await self.reader.readuntil(b"\r\n\r\n")).decode()


@pytest.fixture
async def wire(aliyun: Aliyun) -> AsyncIterator[Wire]:
    wire = Wire(*await aliyun.open())
    yield wire
    wire.writer.close()
    await wire.writer.wait_closed()


async def test_own_headers_are_lower_case_and_every_body_has_a_length(wire: Wire) -> None:
    for method, target, body, status in (
        ("POST", "/topics/orders/messages", MESSAGE, "201 Created"),
        ("GET", POLL, b"", "200 OK"),
        ("GET", POLL.replace("30", "0"), b"", "404 Not Found"),
        ("DELETE", "/topics/orders/messages?consumer=GID_a", HANDLES % b"x", "404 Not Found"),
        ("DELETE", "/topics/orders", b"", "400 Bad Request"),
    ):
        head, answered = await wire.ask(method, target, body)
        assert head.startswith(f"HTTP/1.1 {status}\r\n")
        assert re.search(r"\r\nx-mq-request-id: [0-9A-F]{24}\r\n", head)
        assert "\r\nx-mq-version: 2015-06-06\r\n" in head
        assert "\r\nContent-Type: text/xml;charset=utf-8\r\n" in head
        assert answered.startswith(b'<?xml version="1.0" encoding="utf-8"?>\n<')


async def test_success_without_content_has_no_body(aliyun: Aliyun, wire: Wire) -> None:
    await aliyun.published()
    [message] = await aliyun.consume()
    body = HANDLES % message["ReceiptHandle"].encode()
    head, _ = await wire.ask("DELETE", "/topics/orders/messages?consumer=GID_a", body)
    assert head.startswith("HTTP/1.1 204 No Content\r\n")
    assert re.search(r"\r\nx-mq-request-id: [0-9A-F]{24}\r\n", head)
    assert not re.search("content-length|content-type|transfer-encoding", head, re.IGNORECASE)
    head, _ = await wire.ask("GET", "/topics/orders")  # no leftover of it precedes the next answer
    assert head.startswith("HTTP/1.1 400 ")


async def test_a_hundred_requests_on_one_connection(wire: Wire) -> None:
    for number in range(50):
        head, _ = await wire.ask("POST", "/topics/orders/messages", MESSAGE, "Connection: Keep-Alive")
        assert head.startswith("HTTP/1.1 201 "), number
        head, body = await wire.ask("GET", POLL, b"", "Connection: Keep-Alive")
        assert head.startswith("HTTP/1.1 200 "), number
        assert b"<MessageBody>a</MessageBody>" in body


async def test_expect_continue_is_answered(wire: Wire) -> None:
    for method, target, body in (
        ("POST", "/topics/orders/messages", MESSAGE),
        ("DELETE", "/topics/orders/messages?consumer=GID_a", HANDLES % b"x"),
    ):
        lines = [
            f"{method} {target} HTTP/1.1",
            "Host: b",
            f"Content-Length: {len(body)}",
            "Expect: 100-continue",
        ]
        wire.writer.write("\r\n".join([*lines, "", ""]).encode())
        assert await wire.head() == "HTTP/1.1 100 Continue\r\n\r\n"
        wire.writer.write(body)
        head, _ = await wire.answer()
        assert head.startswith(f"HTTP/1.1 {201 if method == 'POST' else 404} ")


async def test_the_request_line_has_a_limit(wire: Wire) -> None:
    target = "/topics/orders/messages?consumer=GID_a&numOfMessages=1&tag="
    fits = target + "x" * (1_024 - len(f"GET {target} HTTP/1.1"))
    head, body = await wire.ask("GET", fits)
    assert head.startswith("HTTP/1.1 404 ")
    head, body = await wire.ask("GET", fits + "x")
    assert head.startswith("HTTP/1.1 400 ")
    assert b"<Code>InvalidRequestURL</Code>" in body
    assert b"1025 characters" in body


async def test_error_names_the_host_used_by_the_client(aliyun: Aliyun, wire: Wire) -> None:
    _, body = await wire.ask("GET", "/topics/orders")
    assert b"<HostId>http://broker</HostId>" in body
    wire.writer.write(b"GET /topics/orders HTTP/1.0\r\n\r\n")
    _, body = await wire.answer()
    assert f"<HostId>{aliyun.emulator.url}</HostId>".encode() in body


# Long polls


async def test_a_long_poll_is_cut_short_by_an_arrival(aliyun: Aliyun, waiting: Waiting) -> None:
    poll = asyncio.create_task(aliyun.bodies(waitseconds=30))
    await waiting.begun()
    await aliyun.published("there")
    async with asyncio.timeout(PATIENCE_S):
        assert await poll == ["there"]


@pytest.mark.parametrize(
    ("how", "properties"), [({}, {}), ({"trans": "order"}, {}), ({"trans": "pop"}, {"__TransCheckT": "10"})]
)
async def test_client_disconnecting_during_a_poll_consumes_nothing(
    aliyun: Aliyun, waiting: Waiting, wire: Wire, how: dict[str, Any], properties: dict[str, Any]
) -> None:
    wire.send("GET", f"{POLL}&{urlencode(how)}")
    await waiting.begun()
    wire.writer.transport.abort()
    await waiting.ended()
    await aliyun.published(**properties)
    await aliyun.broker.mover.advance(10 * US_PER_S)
    [message] = await aliyun.consume(**how)
    assert message["ConsumedTimes"] == "1"


@pytest.mark.parametrize("_", range(10))
async def test_client_disconnecting_at_an_arrival_consumes_nothing(
    aliyun: Aliyun, waiting: Waiting, wire: Wire, _: int
) -> None:
    wire.send("GET", POLL)
    await waiting.begun()
    wire.writer.transport.abort()
    await aliyun.published()
    [message] = await aliyun.consume(waitseconds=10)
    assert message["ConsumedTimes"] == "1"


# Access


def signature(key: str, secret: str, method: str, target: str, **more: str) -> dict[str, str]:
    """Return the headers of a signed request."""
    headers = {
        "Date": formatdate(usegmt=True),
        "Content-Type": "text/xml",
        "x-mq-version": "2015-06-06",
    } | more
    return headers | {"Authorization": f"MQ {key}:{sign(secret, string_to_sign(method, target, headers))}"}


async def signed(
    aliyun: Aliyun, key: str, secret: str, method: str, target: str, body: bytes = b"", **more: str
) -> tuple[int, str]:
    headers = signature(key, secret, method, target, **more)
    answer = await aliyun.call(method, target, body, headers=headers)
    return answer.error if answer.status >= 400 else (answer.status, "")


async def test_without_access_keys_any_key_is_accepted(aliyun: Aliyun) -> None:
    assert await signed(aliyun, "who", "ever", "POST", "/topics/orders/messages", MESSAGE) == (201, "")
    assert (await aliyun.publish()).status == 201


async def test_with_access_keys_only_signed_requests_are_served() -> None:
    async with running_aliyun(access_keys={"ak": "sk"}) as aliyun:
        target = "/topics/orders/messages?consumer=GID_a&numOfMessages=16&tag=A%7C%7cB"
        assert await signed(aliyun, "ak", "sk", "POST", "/topics/orders/messages", MESSAGE) == (201, "")
        assert await signed(aliyun, "ak", "sk", "GET", target) == (404, "MessageNotExist")
        assert await signed(aliyun, "ak", "no", "GET", target) == (403, "SignatureDoesNotMatch")
        assert await signed(aliyun, "no", "sk", "GET", target) == (403, "InvalidAccessKeyId")
        assert await signed(aliyun, "ak", "sk", "GET", target, Date="Tue, 11 Apr 2017 10:09:19 GMT") == (
            408,
            "TimeExpired",
        )
        assert (await aliyun.publish()).error == (400, "MissingAuthorizationHeader")
        assert (await aliyun.call("GET", "/v1/topics")).status == 200


async def test_temporary_key_needs_its_security_token(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    write_accounts(file, ACCOUNTS)
    tokens = {"STS.a": "a+token", "the-clerk": "another"}
    async with running_aliyun(access_keys={"STS.a": "sk"}, acl=str(file), security_tokens=tokens) as aliyun:
        for key, secret, token in (("STS.a", "sk", "a+token"), ("the-clerk", "quite-a-secret", "another")):
            for given, expected in (
                ({"security-token": token}, (201, "")),
                ({}, (403, "InvalidAccessKeyId")),
                ({"security-token": "old"}, (403, "InvalidAccessKeyId")),
            ):
                target = "/topics/sold/messages"
                headers = signature(key, secret, "POST", target) | given
                answer = await aliyun.call("POST", target, MESSAGE, headers=headers)
                assert (answer.error if answer.status >= 400 else (answer.status, "")) == expected


@pytest.mark.parametrize("keys", [{}, {"ak": "sk"}])
async def test_a_security_token_belongs_to_an_access_key(keys: dict[str, str]) -> None:
    with pytest.raises(SettingError, match=r"security_tokens is 'STS\.a'; allowed: keys in access_keys, or"):
        async with running_aliyun(access_keys=keys, security_tokens={"STS.a": "token"}):
            pass


ACCOUNTS = """\
accounts:
  - accessKey: the-clerk
    secretKey: quite-a-secret
    topicPerms: [sold=PUB, read=SUB, MQ_INST_1%read=SUB]
    groupPerms: [GID_mine=SUB, MQ_INST_1%GID_mine=SUB]
"""


def write_accounts(file: Path, text: str) -> None:
    file.write_text(text)


@pytest.mark.parametrize(
    ("method", "target", "body", "lacking"),
    [
        ("POST", "/topics/sold/messages", MESSAGE, ""),
        ("POST", "/topics/read/messages", MESSAGE, "topic:read"),
        ("POST", "/topics/%25RETRY%25GID_mine/messages", MESSAGE, ""),
        ("GET", "/topics/read/messages?consumer=GID_mine&numOfMessages=1", b"", ""),
        ("GET", "/topics/read/messages?consumer=GID_mine&numOfMessages=1&trans=order", b"", ""),
        ("GET", "/topics/read/messages?consumer=GID_mine&numOfMessages=1&ns=MQ_INST_1", b"", ""),
        ("GET", "/topics/read/messages?consumer=GID_mine&numOfMessages=1&ns=I2", b"", "group:I2%GID_mine"),
        ("GET", "/topics/sold/messages?consumer=GID_mine&numOfMessages=1", b"", "topic:sold"),
        ("GET", "/topics/read/messages?consumer=GID_other&numOfMessages=1", b"", "group:GID_other"),
        ("GET", "/topics/sold/messages?consumer=GID_other&numOfMessages=1&trans=pop", b"", ""),
        ("GET", "/topics/read/messages?consumer=GID_mine&numOfMessages=1&trans=pop", b"", "topic:read"),
        ("DELETE", "/topics/read/messages?consumer=GID_mine", HANDLES % b"x", ""),
        ("DELETE", "/topics/sold/messages?consumer=GID_mine", HANDLES % b"x", "topic:sold"),
        ("DELETE", "/topics/read/messages?consumer=GID_other", HANDLES % b"x", "group:GID_other"),
        ("DELETE", "/topics/sold/messages?trans=commit", HANDLES % b"x", ""),
        ("DELETE", "/topics/read/messages?trans=rollback", HANDLES % b"x", "topic:read"),
    ],
)
async def test_accounts_apply_to_the_aliyun_door(
    tmp_path: Path, method: str, target: str, body: bytes, lacking: str
) -> None:
    write_accounts(tmp_path / "acl.yml", ACCOUNTS)
    async with running_aliyun(acl=str(tmp_path / "acl.yml")) as aliyun:
        answer = await aliyun.call(
            method, target, body, headers=signature("the-clerk", "quite-a-secret", method, target)
        )
        if lacking:
            assert answer.error == (403, "AccessDenied")
            assert answer.fields["Message"] == f"No default permission for {lacking}"
        else:
            assert answer.status != 403
        assert await signed(aliyun, "the-clerk", "wrong", method, target, body) == (
            403,
            "SignatureDoesNotMatch",
        )


USERS = """\
users:
  - username: the-clerk
    password: quite-a-secret
    policies:
      - {resources: [Topic:sold], actions: [Pub], decision: Allow}
      - {resources: [Topic:read, Group:GID_mine], actions: [Sub], decision: Allow}
"""


@pytest.mark.parametrize(
    ("method", "target", "body", "lacking"),
    [
        ("POST", "/topics/sold/messages", MESSAGE, ""),
        ("POST", "/topics/read/messages", MESSAGE, "Topic:read"),
        ("GET", "/topics/read/messages?consumer=GID_mine&numOfMessages=1", b"", ""),
        ("GET", "/topics/read/messages?consumer=GID_other&numOfMessages=1", b"", "Group:GID_other"),
        ("DELETE", "/topics/sold/messages?consumer=GID_mine", HANDLES % b"x", "Topic:sold"),
    ],
)
async def test_users_of_rocketmq_5_apply_to_the_aliyun_door(
    tmp_path: Path, method: str, target: str, body: bytes, lacking: str
) -> None:
    file = tmp_path / "users.yml"
    write_accounts(file, USERS)
    async with running_aliyun(acl=str(file)) as aliyun:
        sent = partial(signed, aliyun, "the-clerk", "quite-a-secret", method, target, body)
        if lacking:
            headers = signature("the-clerk", "quite-a-secret", method, target)
            answer = await aliyun.call(method, target, body, headers=headers)
            assert answer.error == (403, "AccessDenied")
            why = f"has no permission to access {lacking} from 127.0.0.1, no matched policies."
            assert answer.fields["Message"] == f"User:the-clerk {why}"
        else:
            assert (await sent())[0] != 403
        write_accounts(file, USERS.replace("quite-a-secret", "another"))
        assert await sent() == (403, "SignatureDoesNotMatch")
        write_accounts(file, USERS.replace("the-clerk", "somebody"))
        assert await sent() == (403, "InvalidAccessKeyId")
        write_accounts(file, USERS.replace("policies", "userStatus: disable\n    policies"))
        assert await sent() == (403, "AccessDenied")


async def test_trusted_addresses_need_no_signature(tmp_path: Path) -> None:
    write_accounts(tmp_path / "acl.yml", "globalWhiteRemoteAddresses: [127.0.0.*]")
    async with running_aliyun(acl=str(tmp_path / "acl.yml")) as aliyun:
        assert (await aliyun.publish()).status == 201
        write_accounts(tmp_path / "acl.yml", ACCOUNTS)
        assert (await aliyun.publish()).error == (400, "MissingAuthorizationHeader")


async def test_token_closes_the_door_without_access_keys() -> None:
    async with running_aliyun(token=TOKEN) as aliyun:
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
            answer = await aliyun.call("POST", "/topics/orders/messages", MESSAGE, headers=headers)
            assert answer.error == (403, "AccessDenied")
            assert "configure access_keys" in answer.fields["Message"]
            assert TOKEN not in answer.fields["Message"]
    async with running_aliyun(token=TOKEN, access_keys={"ak": "sk"}) as aliyun:
        assert await signed(aliyun, "ak", "sk", "POST", "/topics/orders/messages", MESSAGE) == (201, "")
        assert (await aliyun.call("GET", "/v1/topics")).status == 401


# Ports


async def test_the_json_api_and_this_door_share_a_port(aliyun: Aliyun) -> None:
    assert (await aliyun.call("GET", "/topics/orders")).error == (400, "InvalidRequestURL")
    assert (await aliyun.call("GET", "/topics")).error == (400, "InvalidRequestURL")
    for path in ("/v1/topics/none", "/nothing", "//topics/orders/messages"):
        answer = await aliyun.call("GET", path)
        assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json")
    assert aliyun.emulator.aliyun_url is None


async def test_answers_are_counted_by_their_template(aliyun: Aliyun) -> None:
    await aliyun.published()
    await aliyun.published(topic="audit")
    await aliyun.consume(topic="empty")
    await aliyun.call("GET", "/topics/orders")
    metrics = (await aliyun.call("GET", "/metrics")).body.decode()
    for labels, count in (
        ('method="POST",route="/topics/{topic}/messages",status="201"', 2.0),
        ('method="GET",route="/topics/{topic}/messages",status="404"', 1.0),
        ('method="GET",route="unmatched",status="400"', 1.0),
    ):
        assert f"mocketmq_http_requests_total{{{labels}}} {count}" in metrics


async def test_a_separate_port_serves_only_this_door() -> None:
    async with running_aliyun(aliyun_port=0) as aliyun:
        own = aliyun.emulator.aliyun_url
        assert own
        assert own != aliyun.emulator.url
        assert (await aliyun.call("POST", "/topics/orders/messages", MESSAGE, url=own)).status == 201
        assert await aliyun.bodies() == ["a"]
        for method, path in (("GET", "/v1/topics"), ("GET", "/"), ("POST", "/topics"), ("PUT", "/healthz")):
            assert (await aliyun.call(method, path, url=own)).error == (400, "InvalidRequestURL")
        answer = await aliyun.call("PUT", "/topics/orders/messages", url=own)
        assert answer.error == (400, "InvalidRequestURL")
        assert "allowed: POST, GET, DELETE" in answer.fields["Message"]


async def test_a_taken_port_leaves_the_other_one_free(aliyun: Aliyun) -> None:
    taken = int(aliyun.emulator.url.rpartition(":")[2])
    free = quiet_port()
    settings = partial(Settings, data=":memory:", remoting=False)
    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{taken} for HTTP"):
        async with running_emulator(settings(http_port=free, aliyun_port=taken)):
            pass
    async with running_emulator(settings(http_port=free)) as emulator:
        assert emulator.url.endswith(f":{free}")


async def test_the_start_line_names_the_port_and_no_secret() -> None:
    async with forked_broker(
        "--aliyun-port", "0", "--access-keys", "ak:s3cret", "--log-level", "debug"
    ) as process:
        assert re.search(
            r", Aliyun's HTTP protocol at http://127\.0\.0\.1:[1-9]\d*, data", process.start_line
        )
    assert "s3cret" not in process.start_line + process.stderr


async def test_both_ports_close_with_the_emulator() -> None:
    async with running_aliyun(aliyun_port=0) as aliyun:
        urls = [aliyun.emulator.url, aliyun.emulator.aliyun_url or ""]
    for url in urls:
        with pytest.raises(ConnectionRefusedError):
            await aliyun.open(url)
