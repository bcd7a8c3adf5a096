"""Accounts over remoting: the permissions that each request needs, and how it is refused."""

import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from mocketmq.errors import SettingError
from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.signature import sign
from tests.doors.remoting.consuming import pull_of
from tests.doors.remoting.producing import BATCH, V1, V2, header
from tests.support.process import forked_broker
from tests.support.remoting import Remoting, RemotingClient, connected, running_remoting

SECRET = "quite a secret"  # noqa: S105
OWNER, CLERK = "the owner", "the clerk"

ACCOUNTS = f"""\
accounts:
  - accessKey: {OWNER}
    secretKey: {SECRET}
    admin: true
  - accessKey: {CLERK}
    secretKey: {SECRET}
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - sold=PUB
      - read=SUB
    groupPerms:
      - GID_mine=SUB
"""
PREFIX = "org.apache.rocketmq.acl.common.AclException: "


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    return file


def write(file: Path, text: str | bytes | None) -> None:
    """Write the file, or remove it if ``text`` is None."""
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())


def exchange(file: Path, text: str) -> None:
    """Replace the file by renaming another, as editors and Kubernetes do."""
    another = file.with_name("another.yml")
    another.write_text(text)
    another.rename(file)


@pytest_asyncio.fixture
async def guarded(file: Path) -> AsyncIterator[Remoting]:
    async with running_remoting(acl=str(file)) as remoting:
        yield remoting


def signed(key: str, ext: Mapping[str, str], body: bytes = b"", secret: str = SECRET) -> dict[str, str]:
    """Return the ext fields signed with a key, as Apache's clients sign them."""
    whole = {**ext, "AccessKey": key}
    text = "".join(whole[name] for name in sorted(whole))
    return whole | {"Signature": sign(secret, text.encode() + body).decode()}


async def asked(
    client: RemotingClient,
    key: str,
    code: int,
    ext: Mapping[str, str],
    body: bytes = b"",
    secret: str = SECRET,
) -> str | None:
    """Send a signed request, and return why it was refused, or None if it was not."""
    answer = await client.call(code, signed(key, ext, body, secret), body)
    return refusal(answer)


def refusal(answer: Command) -> str | None:
    if not (answer.remark or "").startswith(PREFIX):
        return None
    assert answer.code == 1
    return (answer.remark or "").removeprefix(PREFIX)


# Rules


def test_name_server_alone_needs_no_key() -> None:
    """Upstream's name server knows no accounts, but ours requires an administrator for changes."""
    assert {code for code, request in REQUESTS.items() if request.access.is_open} == {
        *(101, 105, 106, 206, 219, 224, 304, 311, 312, 313, 319)
    }


async def test_a_route_request_without_a_key_creates_no_topic(guarded: Remoting) -> None:
    for topic in ("%RETRY%GID_mine", "rmq_sys_TRACE_DATA_x", "sold", "read"):
        ext = {"topic": topic}
        for fields in (ext, signed(CLERK, ext, secret="wrong")):  # noqa: S106
            assert (await guarded.client.call(105, fields)).code == 17
        assert guarded.broker.registry.topics.find_topic(topic) is None
        await guarded.client.ok(105, signed(CLERK, ext))
    assert guarded.broker.registry.groups.find_group("GID_mine")


@pytest.mark.parametrize("topic", ["new", "%RETRY%GID_other", "%DLQ%GID_mine"])
async def test_a_route_request_without_permission_creates_no_topic(guarded: Remoting, topic: str) -> None:
    await guarded.broker.registry.groups.put("GID_mine", 16, 1)
    ext = {"topic": topic}
    for version in (409, 121):
        assert (await guarded.client.call(105, signed(CLERK, ext), version=version)).code == 17
    await guarded.client.ok(105, signed(OWNER, ext))


async def test_other_requests_need_a_key(guarded: Remoting) -> None:
    for code, request in REQUESTS.items():
        answer = await guarded.client.call(code, {"AccessKey": ""} if code % 2 else {})
        words = "No acl config for " if code % 2 else "No accessKey is configured"
        assert refusal(answer) == (None if request.access.is_open else words), code


async def test_some_requests_need_an_administrator(guarded: Remoting) -> None:
    for code, request in REQUESTS.items():
        if not request.access.is_admin:
            continue
        assert (
            await asked(guarded.client, CLERK, code, {})
            == f"Need admin permission for request code={code}, but accessKey={CLERK} is not"
        )
        assert await asked(guarded.client, OWNER, code, {"topic": "%"}) is None


async def test_all_other_requests_are_open_to_every_key(guarded: Remoting) -> None:
    names = {"topic": "new", "b": "new"} | dict.fromkeys(("group", "consumerGroup", "groupName"), "GID_other")
    tried = {code for code, *_ in NEEDS}
    for code, request in REQUESTS.items():
        if code not in tried and not request.access.is_admin and not request.access.is_open:
            assert await asked(guarded.client, CLERK, code, names) is None, code
            assert await asked(guarded.client, CLERK, code, names, secret="wrong") is not None  # noqa: S106


def beat(group: str, *topics: str) -> bytes:
    consumer = {"groupName": group, "subscriptionDataSet": [{"topic": topic} for topic in topics]}
    return json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode()


def queues(group: str, *topics: str) -> bytes:
    mq = [{"brokerName": "broker-a", "queueId": 0, "topic": topic} for topic in topics]
    return json.dumps({"clientId": "c", "consumerGroup": group, "mqSet": mq}).encode()


def acks(group: str, topic: str) -> bytes:
    return json.dumps({"brokerName": "broker-a", "acks": [{"c": group, "t": topic}]}).encode()


def wish(group: str, topic: str) -> bytes:
    return json.dumps({"clientId": "c", "consumerGroup": group, "topic": topic}).encode()


READING, SETTLING = [11, 15, 309, 361, 200_050, 200_052, 200_054], [200_051, 200_053]
CONSUMING = [*READING, *SETTLING]

NEEDS: list[tuple[int, Mapping[str, str], bytes, str | None]] = [
    *((code, header(code, topic="sold"), b"", None) for code in (V1, V2, BATCH)),
    *((code, header(code, topic="read"), b"", "topic:read") for code in (V1, V2, BATCH)),
    *((code, header(code, topic="new"), b"", "topic:new") for code in (V1, V2, BATCH)),
    *((code, header(code, topic="%RETRY%GID_mine"), b"", None) for code in (V1, V2, BATCH)),
    *((code, header(code, topic="%RETRY%GID_other"), b"", "group:GID_other") for code in (V1, V2, BATCH)),
    *((code, header(code, topic="RMQ_SYS_TRACE_TOPIC"), b"", None) for code in (V1, V2, BATCH)),
    *((code, {"topic": "read", "consumerGroup": "GID_mine"}, b"", None) for code in CONSUMING),
    *((code, {"topic": "%RETRY%GID_mine", "consumerGroup": "GID_mine"}, b"", None) for code in CONSUMING),
    *(
        (code, {"topic": f"%RETRY%GID_mine{kind}read", "consumerGroup": "GID_mine"}, b"", lacking)
        for kind in "_+"
        for codes, lacking in ((READING, f"group:GID_mine{kind}read"), (SETTLING, None))
        for code in codes
    ),
    *(
        (code, {"topic": "%RETRY%GID_mine_sold", "consumerGroup": "GID_mine"}, b"", "topic:sold")
        for code in SETTLING
    ),
    *((code, {"topic": "sold", "consumerGroup": "GID_mine"}, b"", "topic:sold") for code in CONSUMING),
    *((code, {"topic": "read", "consumerGroup": "GID_other"}, b"", "group:GID_other") for code in CONSUMING),
    *((code, {"topic": "%RETRY%g", "consumerGroup": "GID_mine"}, b"", "group:g") for code in CONSUMING),
    (11, {"topic": "%RETRY%GID_mineral", "consumerGroup": "GID_mine"}, b"", "group:GID_mineral"),
    *((code, {name: "DefaultCluster_REPLY_TOPIC"}, b"", None) for code, name in ((324, "topic"), (325, "b"))),
    *((code, {name: "sold"}, b"", None) for code, name in ((324, "topic"), (325, "b"))),
    *((code, {name: "read"}, b"", "topic:read") for code, name in ((324, "topic"), (325, "b"))),
    (12, {"topic": "read"}, b"", None),
    (12, {"topic": "sold"}, b"", "topic:sold"),
    (36, {"group": "GID_mine"}, b"", None),
    (36, {"group": "GID_other"}, b"", "group:GID_other"),
    (37, {}, b"", None),
    (37, {"topic": "sold"}, b"", None),
    (37, {"topic": "read"}, b"", "topic:read"),
    (370, {"topic": "sold"}, b"", None),
    (370, {"topic": "read"}, b"", "topic:read"),
    *((code, {"consumerGroup": "GID_mine"}, b"", None) for code in (35, 38)),
    *((code, {"consumerGroup": "GID_other"}, b"", "group:GID_other") for code in (35, 38)),
    (35, {"producerGroup": "GID_other"}, b"", None),
    (34, {}, b"", None),
    (34, {}, b'{"clientID": "c", "producerDataSet": [{"groupName": "GID_other"}]}', None),
    (34, {}, beat("GID_mine"), None),
    (34, {}, beat("GID_mine", "read", "%RETRY%GID_mine"), None),
    (34, {}, beat("GID_mine", "read", "sold"), "topic:sold"),
    (34, {}, beat("GID_other", "read"), "group:GID_other"),
    *((code, {}, queues("GID_mine", "read", "%RETRY%GID_mine"), None) for code in (41, 42)),
    *((code, {}, queues("GID_mine", "read", "sold"), "topic:sold") for code in (41, 42)),
    *((code, {}, queues("GID_other"), "group:GID_other") for code in (41, 42)),
    (400, {}, wish("GID_mine", "read"), None),
    (400, {}, wish("GID_mine", "sold"), "topic:sold"),
    (400, {}, wish("GID_other", "read"), "group:GID_other"),
    (200_151, {}, acks("GID_mine", "read"), None),
    (200_151, {}, acks("GID_mine", "%RETRY%GID_mine_read"), None),
    (200_151, {}, acks("GID_mine", "%RETRY%GID_mine_sold"), "topic:sold"),
    (200_151, {}, acks("GID_mine", "sold"), "topic:sold"),
    (200_151, {}, acks("GID_other", "read"), "group:GID_other"),
]


async def test_some_requests_need_permissions(guarded: Remoting) -> None:
    for code, ext, body, lacking in NEEDS:
        words = None if lacking is None else f"No default permission for {lacking}"
        assert await asked(guarded.client, CLERK, code, ext, body) == words, (code, ext, body)
        assert await asked(guarded.client, OWNER, code, ext, body) is None, (code, ext, body)


async def test_group_permission_excludes_groups_with_longer_names(file: Path) -> None:
    """``%RETRY%GID_mine_too`` looks like GID_mine's retries of the topic ``too``, but is not."""
    write(file, ACCOUNTS.replace("defaultTopicPerm: DENY", "defaultTopicPerm: PUB|SUB"))
    async with running_remoting(acl=str(file)) as remoting:
        client, retry = remoting.client, "%RETRY%GID_mine_too"
        fields = header(topic=retry, max_reconsume_times=16)
        assert await asked(client, OWNER, V2, fields, b"nobody else's") is None
        popped = {
            "queueId": "0",
            "maxMsgNums": "1",
            "invisibleTime": "1000",
            "pollTime": "0",
            "initMode": "0",
        }
        for code, fields in ((11, pull_of()), (361, pull_of()), (200_050, popped), (200_052, popped)):
            ext = {**fields, "topic": retry, "consumerGroup": "GID_mine"}
            for key, words in ((CLERK, "No default permission for group:GID_mine_too"), (OWNER, None)):
                answer = await client.call(code, signed(key, ext))
                assert (refusal(answer), b"nobody else's" in answer.body) == (words, key is OWNER), code
                if code == 200_050:
                    await remoting.broker.mover.advance(1_000_000)  # the message is visible again


# Access


async def test_signatures_of_right_and_wrong_keys(guarded: Remoting) -> None:
    client, ext = guarded.client, header(topic="sold")
    assert await asked(client, CLERK, V2, ext, b"stored") is None
    assert await asked(client, "ключ", V2, ext, b"x") == "No acl config for ключ"
    assert (
        await asked(client, CLERK, V2, ext, b"x", "wrong") == f"Check signature failed for accessKey={CLERK}"
    )
    right = signed(CLERK, ext, b"x")
    for fields, body in (
        (right, b"another"),
        (right | {"e": "1"}, b"x"),
        ({name: text for name, text in right.items() if name != "Signature"}, b"x"),
    ):
        answer = await client.call(V2, fields, body)
        assert refusal(answer) == f"Check signature failed for accessKey={CLERK}"
    assert [queue.next_offset for queue in guarded.broker.registry.topics.get("sold").queues] == [1, 0, 0, 0]


async def test_a_refused_oneway_request_has_no_effect_and_no_answer(guarded: Remoting) -> None:
    client = guarded.client
    client.oneway(V2, header(topic="sold"), b"no key")
    assert await asked(client, CLERK, V2, header(topic="sold"), b"with a key") is None  # the first answer
    assert guarded.broker.registry.topics.get("sold").queues[0].next_offset == 1


async def test_unreadable_heartbeat_is_refused(guarded: Remoting) -> None:
    for body in (b"{", b"[]", b'{"consumerDataSet": [7]}', b'{"consumerDataSet": [{"groupName": 7}]}'):
        answer = await guarded.client.call(34, signed(CLERK, {}, body), body)
        assert answer.code == 1
    assert await asked(guarded.client, CLERK, 34, {}, beat("GID_mine")) is None


@pytest.mark.parametrize("line", ["127.0.0.*", "127.0.0.{1,2}", "'*'"])
async def test_trusted_addresses_need_no_key(file: Path, line: str) -> None:
    write(file, f"globalWhiteRemoteAddresses:\n  - {line}\n")
    async with running_remoting(acl=str(file)) as remoting:
        assert refusal(await remoting.client.call(V2, header())) is None
        assert refusal(await remoting.client.call(17, {})) is None
    write(file, "globalWhiteRemoteAddresses:\n  - 127.0.1.*\n")
    async with running_remoting(acl=str(file)) as remoting:
        assert refusal(await remoting.client.call(V2, header())) == "No accessKey is configured"


async def test_trusted_address_of_an_account_needs_no_signature(file: Path) -> None:
    own = "  - accessKey: at home\n    secretKey: not needed\n    whiteRemoteAddress: 127.0.0.1\n"
    write(file, ACCOUNTS + own)
    async with running_remoting(acl=str(file)) as remoting:
        assert refusal(await remoting.client.call(V2, header() | {"AccessKey": "at home"})) is None
        assert refusal(await remoting.client.call(V2, header() | {"AccessKey": CLERK})) is not None


@pytest.mark.parametrize("host", ["::1", "::"])
async def test_white_list_matches_ipv4_at_an_ipv6_listener(file: Path, host: str) -> None:
    """If the same socket accepts IPv4, its clients must be matched by their IPv4 addresses."""
    write(file, "globalWhiteRemoteAddresses:\n  - ::1\n")
    async with (
        running_remoting(acl=str(file), host=host) as remoting,
        remoting.another(host="::1") as client,
    ):
        assert refusal(await client.call(V2, header())) is None


async def test_access_keys_may_do_everything(file: Path) -> None:
    async with running_remoting(access_keys={"ak": "sk"}) as remoting:
        assert refusal(await remoting.client.call(V2, header())) == "No accessKey is configured"
        assert await asked(remoting.client, "ak", V2, header(), b"x", "sk") is None
        assert await asked(remoting.client, "ak", 17, {}, b"", "sk") is None
    async with running_remoting(access_keys={"ak": "sk"}, acl=str(file)) as remoting:
        assert await asked(remoting.client, "ak", V2, header(), b"x", "sk") is None
        assert await asked(remoting.client, CLERK, V2, header(topic="sold"), b"x") is None


# The accounts file


async def test_changed_account_file_applies_at_once(
    guarded: Remoting, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mocketmq.access")
    client = guarded.client
    assert await asked(client, CLERK, V2, header(topic="new"), b"x") == "No default permission for topic:new"
    write(file, ACCOUNTS.replace("sold=PUB", "new=PUB"))
    assert await asked(client, CLERK, V2, header(topic="new"), b"x") is None
    assert (
        await asked(client, CLERK, V2, header(topic="sold"), b"x") == "No default permission for topic:sold"
    )

    exchange(file, ACCOUNTS.replace("sold=PUB", "old=PUB"))
    assert await asked(client, CLERK, V2, header(topic="old"), b"x") is None
    assert [record.getMessage() for record in caplog.records] == [f"reloaded {file}: 2 accounts"] * 2


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("", "it is empty"),
        (ACCOUNTS + "    admin: maybe\n", "line 14: admin is 'maybe'; allowed: true or false"),
        (None, "No such file"),
    ],
)
async def test_broken_account_file_is_reported_once_and_ignored(
    guarded: Remoting, file: Path, caplog: pytest.LogCaptureFixture, broken: str | None, why: str
) -> None:
    write(file, broken)
    for _ in range(2):
        assert await asked(guarded.client, CLERK, V2, header(topic="sold"), b"x") is None
        assert await asked(guarded.client, CLERK, V2, header(topic="new"), b"x") is not None
    [record] = caplog.records
    assert re.search(f"keeping the previous accounts: .*{why}", record.getMessage())
    write(file, ACCOUNTS.replace("sold=PUB", "new=PUB"))
    assert await asked(guarded.client, CLERK, V2, header(topic="new"), b"x") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("accounts:\n  - accessKey: short\n", "(line 2: accessKey has 5 characters; allowed: 7 or more)"),
        (b"\xff", "(it is not UTF-8)"),
        (None, "No such file or directory"),
        (
            f"accounts: [{{accessKey: double.key, secretKey: {SECRET}}}]",
            "double.key is also in the setting access_keys",
        ),
    ],
)
async def test_broken_account_file_fails_the_start(file: Path, text: str | bytes | None, why: str) -> None:
    write(file, text)
    with pytest.raises(
        SettingError, match=r"^setting acl is .*; allowed: a file of accounts such as"
    ) as refused:
        async with running_remoting(acl=str(file), access_keys={"double.key": "sk"}):
            pass
    assert why in str(refused.value)
    assert SECRET not in str(refused.value)


async def test_secrets_appear_in_no_log_or_answer(file: Path) -> None:
    async with (
        forked_broker("--acl", str(file), "--log-level", "debug") as process,
        connected("127.0.0.1", process.broker_port) as client,
    ):
        answers = [
            await client.call(V2, signed(CLERK, header(topic="sold"), b"x"), b"x"),
            await client.call(V2, signed(CLERK, header(topic="new"), b"x"), b"x"),
            await client.call(V2, signed(CLERK, header(), b"x", "wrong"), b"x"),
            await client.call(26, signed(OWNER, {})),
        ]
    for answer in answers:
        assert SECRET not in f"{answer.remark}{answer.ext}{answer.body!r}"
    assert SECRET not in process.start_line + process.stderr
