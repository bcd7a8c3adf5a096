"""Recalls by 370: which messages have a handle, effects of recalls, and refusals."""

import base64
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.inspection.recalls import RecallHandle
from mocketmq.clock import wall_us
from tests.doors.remoting.producing import BATCH, UNIQUE, V1, V2, batch, pulled, sent
from tests.support.brokers import TOPIC, S
from tests.support.remoting import Remoting, running_remoting

RECALL = 370
START = "__STARTDELIVERTIME"
NO_HANDLE = "recall handle is invalid"


async def recall(remoting: Remoting, handle: str, topic: str = TOPIC) -> tuple[int, str | None]:
    """Recall a message, and return code and remark, or 0 and the message's key."""
    ext = {"producerGroup": "makers", "topic": topic, "recallHandle": handle}
    answer = await remoting.client.call(RECALL, ext)
    assert answer.ext["MSG_REGION"] == "DefaultRegion"
    assert ("msgId" in answer.ext) == (answer.code == 0)
    return answer.code, answer.remark if answer.code else answer.ext["msgId"]


async def delayed(remoting: Remoting, name: str = "TIMER_DELAY_SEC", text: str = "60", **fields: Any) -> str:
    """Send a message with a delay, and return its handle."""
    ext = await sent(remoting.client, properties={name: text, "UNIQ_KEY": UNIQUE}, **fields)
    return ext["recallHandle"]


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", START])
async def test_a_delayed_message_is_recalled(name: str, is_strict: bool) -> None:
    async with running_remoting(strict_recall=is_strict, recall_levels=True) as remoting:
        instant = str(wall_us() // 1_000 + 60_000)
        text = {"DELAY": "5", "TIMER_DELAY_SEC": "60", "TIMER_DELAY_MS": "59999"}.get(name, instant)
        handle = await delayed(remoting, name, text)
        [waiting] = await remoting.broker.pending.list()
        due_ms = -(-(waiting.message.due_us or 0) // 1_000)
        assert base64.urlsafe_b64decode(handle).decode() == f"v1 {TOPIC} broker-a {due_ms} {UNIQUE}"
        await sent(remoting.client, b"wanted", properties={name: text})
        assert await recall(remoting, handle) == (0, UNIQUE)
        assert remoting.broker.pending.count == 1
        life = await remoting.broker.histories.of(UNIQUE)
        assert [row.kind for row in life.interventions] == ["cancelled"]
        gone = f"recall failed, message {UNIQUE} is not pending: it was delivered, cancelled, "
        again = (604, f"{gone}or never delayed") if is_strict else (0, UNIQUE)
        assert await recall(remoting, handle) == again
        await remoting.broker.mover.advance(61 * S)
        assert [record.body for record in await pulled(remoting.client)] == [b"wanted"]


@pytest.mark.parametrize(("name", "text"), [("DELAY", "5"), ("TIMER_DELAY_SEC", "60")])
async def test_handles_and_recalls_survive_a_restart(name: str, text: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data": str(tmp_path), "strict_recall": True, "recall_levels": True}
    async with running_remoting(**settings) as remoting:
        first = await delayed(remoting, name, text)
        assert await recall(remoting, first) == (0, UNIQUE)
        await remoting.broker.mover.advance(1 * S)
        second = await delayed(remoting, name, text)
    async with running_remoting(**settings) as remoting:
        assert (await recall(remoting, first))[0] == 604
        assert remoting.broker.pending.count == 1
        assert await recall(remoting, second) == (0, UNIQUE)
        assert remoting.broker.pending.count == 0


async def test_repeated_message_is_recalled_by_its_due_time() -> None:
    async with running_remoting(strict_recall=True) as remoting:
        first, second = [await delayed(remoting, text=text) for text in ("60", "61")]
        assert await recall(remoting, second) == (0, UNIQUE)
        assert (await recall(remoting, second))[0] == 604
        assert await recall(remoting, first) == (0, UNIQUE)
        [handle] = {await delayed(remoting) for _ in range(2)}
        assert await recall(remoting, handle) == (0, UNIQUE)
        assert remoting.broker.pending.count == 0


@pytest.mark.parametrize("is_strict", [False, True])
async def test_a_delivered_message_is_not_recalled(is_strict: bool) -> None:
    async with running_remoting(strict_recall=is_strict) as remoting:
        handle = await delayed(remoting)
        await remoting.broker.mover.move_to_next()
        assert await recall(remoting, handle) == (604, "recall failed, timestamp invalid")
        handle = await delayed(remoting)
        await remoting.broker.pending.deliver_now(UNIQUE)
        assert (await recall(remoting, handle))[0] == (604 if is_strict else 0)
        assert len(await pulled(remoting.client)) == 2


async def test_only_pending_messages_have_a_handle() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        assert "recallHandle" not in await sent(client)
        assert "recallHandle" not in await sent(client, properties={"TIMER_DELAY_SEC": "0"})
        assert "recallHandle" not in await sent(client, batch((b"a", {}), (b"b", {})), BATCH)
        for code in (V1, V2):
            assert "recallHandle" not in await sent(client, code=code, properties={"DELAY": "1"})
            assert "recallHandle" in await sent(client, code=code, properties={"TIMER_DELAY_SEC": "1"})
        await remoting.broker.registry.groups.put("makers", 16, 1)
        retry = await sent(client, properties={"TIMER_DELAY_SEC": "1"}, topic="%RETRY%makers")
        assert "recallHandle" not in retry


@pytest.mark.parametrize(
    ("handle", "code", "remark"),
    [
        ("", 604, NO_HANDLE),
        ("?", 604, NO_HANDLE),
        ("A", 604, NO_HANDLE),
        ("AA=", 604, NO_HANDLE),
        ("AAA==", 604, NO_HANDLE),
        ("//8=", 604, NO_HANDLE),  # another base64 alphabet
        ("__8=", 604, NO_HANDLE),
        (coded("v1 orders broker-a 1"), 604, NO_HANDLE),
        (coded("v1 orders broker-a 1 "), 604, NO_HANDLE),
        (coded("v2 orders broker-a 1 key"), 604, NO_HANDLE),
        (coded("v1 others broker-a 1 key"), 604, "recall failed, topic not match"),
        (coded("v1 orders broker-b 1 key"), 604, "recall failed, broker service not available"),
        (coded("v1 orders broker-a 1 key"), 604, "recall failed, timestamp invalid"),
        (coded("v1 orders broker-a soon key"), 604, "recall failed, timestamp invalid"),
        (coded("v1 orders broker-a -5 key"), 604, "recall failed, timestamp invalid"),
        (coded(f"v1 orders broker-a {10**19 - 1} key"), 604, "recall failed, message key is not pending"),
        (coded(f"v1 orders broker-a {10**13} {'0' * 32}"), 604, "recall failed, message 000"),
        (coded(f"v1 orders broker-a {10**13} {UNIQUE}"), 604, f"recall failed, message {UNIQUE} is not"),
        (coded(f"v1 orders broker-a {10**13} {UNIQUE}").rstrip("="), 604, "recall failed, message"),
    ],
)
async def test_invalid_recall_is_refused(handle: str, code: int, remark: str) -> None:
    async with running_remoting(strict_recall=True) as remoting:
        await delayed(remoting)
        answer = await recall(remoting, handle)
        assert answer[0] == code
        assert str(answer[1]).startswith(remark)
        assert remoting.broker.pending.count == 1


async def test_a_recall_needs_a_topic_and_a_handle() -> None:
    async with running_remoting() as remoting:
        handle = RecallHandle("nowhere", "broker-a", 10**13, "key").encode()
        assert await recall(remoting, handle, "nowhere") == (
            17,
            "recall failed, the topic[nowhere] not exist",
        )
        answer = await remoting.client.call(RECALL, {"topic": TOPIC})
        assert (answer.code, answer.remark) == (1, "the custom field <recallHandle> is null")


async def test_recall_spares_other_topics() -> None:
    async with running_remoting() as remoting:
        handle = await delayed(remoting)
        await delayed(remoting, topic="others")
        assert await recall(remoting, handle) == (0, UNIQUE)
        [left] = await remoting.broker.pending.list()
        assert remoting.broker.registry.topics.queue(left.message.real_queue_key or 0).topic == "others"
