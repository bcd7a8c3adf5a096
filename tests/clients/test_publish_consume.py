"""Publish, consume and acknowledge with every SDK; ids in brackets are from docs/protocol/aliyun.md §1."""

import asyncio
from hashlib import md5

import pytest

from tests.clients.conftest import Broker, Open, running_broker
from tests.clients.sdk import NOTHING, Account, NotSettledError, Outgoing, RefusedError, Sdk
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"
INVISIBLE_MS = 300_000
NO_HANDLE = "ReceiptHandleError"

BODIES = {
    "markup": "<order id=\"1\">it's & isn't</order> <![CDATA[ >",
    "Chinese": "洞窝 延迟消息 hello 你好",
    "emoji": "\N{PARTY POPPER}\N{BELL} é",
    "lines": "one\ntwo\n\tthree\n",
    "spaces around": "  order 7  ",
    "JSON": '{"order": 7, "lines": ["a", "b"], "note": "\\u00e9 \\\\"}',
    "large": "0123456789 " * 20_000,
}


def body_md5(body: str) -> str:
    return md5(body.encode(), usedforsecurity=False).hexdigest().upper()


async def drain(sdk: Sdk, topic: str) -> list[str]:
    taken: list[str] = []
    while bodies := await sdk.bodies(topic, GROUP, limit=3):
        taken += bodies
    return taken


@pytest.mark.point("Publish, consume, acknowledge: id, MD5, tag, key and properties arrive as they were sent")
async def test_round_trip(broker: Broker, sdk: Sdk, topic: str) -> None:
    now_ms = await broker.now_ms()
    outgoing = Outgoing(body="order 7", tag="paid", key="7", properties={"shop": "north", "Größe": "5 €"})
    published = await sdk.publish(topic, outgoing)
    assert published.body_md5 == body_md5("order 7")
    assert published.handle is None

    [message] = await sdk.take(topic, GROUP)
    assert (message.message_id, message.body_md5) == published[:2]
    assert (message.body, message.tag, message.key) == ("order 7", "paid", "7")
    assert message.properties == {"shop": "north", "Größe": "5 €"}
    assert (message.start_deliver_ms, message.sharding_key) == (None, None)
    assert (message.publish_ms, message.first_consume_ms, message.times) == (now_ms, now_ms, 1)
    assert message.next_consume_ms == now_ms + INVISIBLE_MS

    await sdk.acknowledge(topic, GROUP, [message.handle])
    await broker.control.advance("301s")
    assert await sdk.take(topic, GROUP) == []


@pytest.mark.point("A message without tag, key and properties has none")
async def test_bare_message(sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="bare"))
    [message] = await sdk.take(topic, GROUP)
    assert (message.tag, message.key, message.properties) == (None, None, {})


@pytest.mark.point("A poll that finds nothing is answered `MessageNotExist`")
async def test_empty_poll(sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.consume(topic, GROUP)
    assert refused.value.code == NOTHING


@pytest.mark.point("Bodies round-trip: markup, quotes, Chinese, emoji, line ends, 200 KB")
@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
async def test_bodies(sdk: Sdk, topic: str, body: str) -> None:
    published = await sdk.publish(topic, Outgoing(body=body))
    assert published.body_md5 == body_md5(body)
    [message] = await sdk.take(topic, GROUP)
    assert (message.body, message.body_md5) == (body, body_md5(body))


@pytest.mark.point(
    "CRLF in a body arrives as LF: XML normalises it before the broker sees it", "python", "node"
)
async def test_crlf(sdk: Sdk, topic: str) -> None:
    published = await sdk.publish(topic, Outgoing(body="one\r\ntwo"))
    [message] = await sdk.take(topic, GROUP)
    assert message.body == "one\ntwo"
    assert message.body_md5 == published.body_md5 == body_md5("one\ntwo")


@pytest.mark.point("CR in a body of another protocol survives")
async def test_carriage_return_from_another_door(broker: Broker, sdk: Sdk, topic: str) -> None:
    await broker.control.send(topic, "one\r\ntwo\rthree")
    assert await sdk.bodies(topic, GROUP) == ["one\r\ntwo\rthree"]


@pytest.mark.point("A character that XML does not allow is refused: `MalformedXML`")
async def test_control_character(sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.publish(topic, Outgoing(body="bell \x07"))
    assert refused.value.code == "MalformedXML"


@pytest.mark.point("Characters that XML cannot carry, in messages of other protocols, arrive as U+FFFD")
async def test_illegal_characters_from_another_door(broker: Broker, sdk: Sdk, topic: str) -> None:
    await broker.control.send(topic, b"\xff text \x00", tag="a\x03", properties={"name": "b\x04"})
    [message] = await sdk.take(topic, GROUP)
    assert (message.body, message.tag) == ("\ufffd text \ufffd", "a\ufffd")
    assert message.body_md5 == body_md5(message.body)
    assert message.properties == {"name": "b\ufffd"}
    await sdk.acknowledge(topic, GROUP, [message.handle])


@pytest.mark.point("A body of 4 MB is taken, a larger one refused: `InvalidArgument`")
async def test_largest_body(sdk: Sdk, topic: str) -> None:
    body = "é" * (2 << 20)
    await sdk.publish(topic, Outgoing(body=body))
    with pytest.raises(RefusedError) as refused:
        await sdk.publish(topic, Outgoing(body=f"{body}!"))
    assert refused.value.code == "InvalidArgument"
    [message] = await sdk.take(topic, GROUP)
    assert message.body == body


@pytest.mark.point("Several keys, separated by spaces")
async def test_keys(broker: Broker, sdk: Sdk, topic: str) -> None:
    published = await sdk.publish(topic, Outgoing(key="first second"))
    [message] = await sdk.take(topic, GROUP)
    assert message.key == "first second"
    [found] = await broker.control.messages_by_key("second", topic=topic)
    assert found["message_id"] == published.message_id


@pytest.mark.point("A tag filter takes the tags that it names: `A||B`")
async def test_tags(sdk: Sdk, topic: str) -> None:
    for tag in ("A", "B", "C", None):
        await sdk.publish(topic, Outgoing(body=str(tag), tag=tag))
    assert sorted(await sdk.bodies(topic, GROUP, tags="A||B")) == ["A", "B"]
    assert await sdk.bodies(topic, "GID_C", tags="C") == ["C"]
    assert sorted(await sdk.bodies(topic, "GID_all")) == ["A", "B", "C", "None"]


@pytest.mark.point("No more messages than asked for")
async def test_limit(sdk: Sdk, topic: str) -> None:
    for number in range(5):
        await sdk.publish(topic, Outgoing(body=str(number)))
    taken = [await sdk.bodies(topic, GROUP, limit=2) for _ in range(4)]
    assert [len(bodies) <= 2 for bodies in taken] == [True] * 4
    assert sorted(body for bodies in taken for body in bodies) == list("01234")


@pytest.mark.point("A poll for more than 16 messages is refused: `InvalidArgument`")
async def test_largest_limit(sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.consume(topic, GROUP, limit=17)
    assert refused.value.code == "InvalidArgument"


@pytest.mark.point("A poll for fewer than 1 message is refused: `InvalidArgument`", "python", "node")
@pytest.mark.parametrize("limit", [-1, 0])
async def test_smallest_limit(sdk: Sdk, topic: str, limit: int) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.consume(topic, GROUP, limit=limit)
    assert refused.value.code == "InvalidArgument"


@pytest.mark.point("Every group gets every message")
async def test_groups(sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="for all"))
    assert await sdk.bodies(topic, "GID_one") == ["for all"]
    assert await sdk.bodies(topic, "GID_two") == ["for all"]


@pytest.mark.point("An unacknowledged message comes again after 300 s, with a new handle")
async def test_the_message_is_redelivered(broker: Broker, sdk: Sdk, topic: str) -> None:
    published = await sdk.publish(topic, Outgoing(body="again"))
    [first] = await sdk.take(topic, GROUP)
    await broker.control.move_to(first.next_consume_ms - 1)
    assert await sdk.take(topic, GROUP) == []
    await broker.control.move_to(first.next_consume_ms)
    [second] = await sdk.take(topic, GROUP)
    assert (second.message_id, second.body, second.times) == (published.message_id, "again", 2)
    assert (second.publish_ms, second.first_consume_ms) == (first.publish_ms, first.first_consume_ms)
    assert second.next_consume_ms == first.next_consume_ms + INVISIBLE_MS
    assert second.handle != first.handle


@pytest.mark.point("After 288 attempts, 24 hours, a message is a dead letter")
async def test_dead_letter(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="poison"))
    for attempt in range(1, 289):
        [message] = await sdk.take(topic, "GID_poisoned")
        assert message.times == attempt
        await broker.control.move_to(message.next_consume_ms)
    assert await sdk.take(topic, "GID_poisoned") == []
    letters = await broker.control.receive("%DLQ%GID_poisoned", group="GID_morgue", max_messages=256)
    assert message.message_id in [letter["message_id"] for letter in letters]


@pytest.mark.point("An expired handle acknowledges nothing, also when its message was taken again")
async def test_expired_handle(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing())
    [first] = await sdk.take(topic, GROUP)
    await broker.control.move_to(first.next_consume_ms)
    with pytest.raises(NotSettledError) as expired:
        await sdk.acknowledge(topic, GROUP, [first.handle])
    assert expired.value.failed == {first.handle: NOTHING}

    [second] = await sdk.take(topic, GROUP)
    with pytest.raises(NotSettledError):
        await sdk.acknowledge(topic, GROUP, [first.handle])
    await sdk.acknowledge(topic, GROUP, [second.handle])


@pytest.mark.point("Of several handles, the bad ones are named and the others acknowledged")
async def test_some_handles_are_bad(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="one"))
    await sdk.publish(topic, Outgoing(body="two"))
    [one] = await sdk.take(topic, GROUP, limit=1)
    [two] = await sdk.take(topic, GROUP, limit=1)
    await sdk.acknowledge(topic, GROUP, [two.handle])
    with pytest.raises(NotSettledError) as failed:
        await sdk.acknowledge(topic, GROUP, ["garbled", one.handle, two.handle])
    assert failed.value.failed == {"garbled": NO_HANDLE, two.handle: NOTHING}
    await broker.control.advance("301s")
    assert await sdk.take(topic, GROUP) == []


@pytest.mark.point("A handle is good for its own group only")
async def test_handle_of_another_group(sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing())
    [message] = await sdk.take(topic, GROUP)
    with pytest.raises(NotSettledError) as failed:
        await sdk.acknowledge(topic, "GID_other", [message.handle])
    assert failed.value.failed == {message.handle: NO_HANDLE}
    await sdk.acknowledge(topic, GROUP, [message.handle])


@pytest.mark.point("An acknowledgement without handles is refused: `MissingReceiptHandle`", "python", "node")
async def test_no_handles(sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.acknowledge(topic, GROUP, [])
    assert refused.value.code == "MissingReceiptHandle"


@pytest.mark.point("A long poll is answered when a message is published")
async def test_long_poll(broker: Broker, open_sdk: Open, sdk: Sdk, topic: str) -> None:
    async with open_sdk(Account(broker.url)) as publisher:
        poll = asyncio.create_task(sdk.bodies(topic, GROUP, wait_s=30))
        await broker.long_polls(1)
        await publisher.publish(topic, Outgoing(body="at last"))
        async with asyncio.timeout(PATIENCE_S):
            assert await poll == ["at last"]


@pytest.mark.point("A long poll that ends empty is answered `MessageNotExist`")
async def test_long_poll_ends(sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.consume(topic, GROUP, wait_s=1)
    assert refused.value.code == NOTHING


@pytest.mark.point("Two consumers of a group share its messages")
async def test_consumers_share(broker: Broker, open_sdk: Open, sdk: Sdk, topic: str) -> None:
    for number in range(20):
        await sdk.publish(topic, Outgoing(body=str(number)))
    async with open_sdk(Account(broker.url)) as second:
        shares = await asyncio.gather(drain(sdk, topic), drain(second, topic))
    assert sorted(shares[0] + shares[1]) == sorted(map(str, range(20)))


@pytest.mark.point("What one SDK publishes, the other consumes")
async def test_the_other_sdk(broker: Broker, sdk: Sdk, open_other_sdk: Open, topic: str) -> None:
    outgoing = Outgoing(body="for you <&>", tag="gift", key="9", properties={"from": "me"})
    published = await sdk.publish(topic, outgoing)
    async with open_other_sdk(Account(broker.url)) as other:
        [message] = await other.take(topic, GROUP)
        assert message.message_id == published.message_id
        assert (message.body, message.tag, message.key) == ("for you <&>", "gift", "9")
        assert message.properties == {"from": "me"}
        await other.acknowledge(topic, GROUP, [message.handle])


@pytest.mark.point(
    "Access keys, if configured: wrong ones are refused, right signatures pass, also with an STS token"
)
async def test_access_keys(open_sdk: Open, topic: str) -> None:
    keys = ("--access-keys", "LTAI5:s3cret,other:word", "--security-tokens", "LTAI5:temporary")
    async with running_broker(*keys) as guarded:
        for key_id, secret, token, code in (
            ("LTAI5", "wrong", "temporary", "SignatureDoesNotMatch"),
            ("LTAI5", "s3cret", "", "InvalidAccessKeyId"),
            ("LTAI5", "s3cret", "old", "InvalidAccessKeyId"),
            ("nobody", "s3cret", "", "InvalidAccessKeyId"),
        ):
            async with open_sdk(Account(guarded.url, key_id, secret, token)) as stranger:
                with pytest.raises(RefusedError) as refused:
                    await stranger.publish(topic, Outgoing())
                assert refused.value.code == code
        owner_account = Account(guarded.url, "LTAI5", "s3cret", "temporary", "MQ_INST_1")
        async with open_sdk(owner_account) as owner:
            await owner.publish(topic, Outgoing(body="signed", tag="A", properties={"größe": "5"}))
            [message] = await owner.take(topic, GROUP, tags="A||B")
            await owner.acknowledge(topic, GROUP, [message.handle])


@pytest.mark.point("An unknown topic is refused when topics are not created on first use: `TopicNotExist`")
async def test_unknown_topic(open_sdk: Open, topic: str) -> None:
    async with (
        running_broker("--no-auto-create-topics") as strict,
        open_sdk(Account(strict.url)) as sdk,
    ):
        for call in (sdk.publish(topic, Outgoing()), sdk.consume(topic, GROUP)):
            with pytest.raises(RefusedError) as refused:
                await call
            assert refused.value.code == "TopicNotExist"
