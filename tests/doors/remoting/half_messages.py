"""Half messages of remoting clients: sends, decisions and check-backs."""

import asyncio

from mocketmq.message.names import UNDECIDED_TOPIC
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.doors.remoting.consuming import beat
from tests.doors.remoting.producing import UNIQUE, V2, Ext, parted, sent
from tests.support.brokers import visible
from tests.support.remoting import Remoting, RemotingClient

HEART_BEAT, END, CHECK = 34, 37, 39
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF = {"TRAN_MSG": "true", "PGROUP": "makers", "UNIQ_KEY": UNIQUE, "TAGS": "A", "WAIT": "true"}
NOT_FOUND = "Find prepared transaction message failed"


async def prepare(
    client: RemotingClient, body: bytes = b"half", code: int = V2, /, queue_id: int = 2, **properties: str
) -> Ext:
    return await sent(client, body, code, {**HALF, **properties}, queue_id=queue_id, sys_flag=4)


def ending(half: Ext, decision: int, **fields: object) -> Ext:
    """Return the ext fields of 37 as the Java client derives them from the answer to its send."""
    given = {
        "producerGroup": "makers",
        "tranStateTableOffset": half["queueOffset"],
        "commitLogOffset": int(half["msgId"][16:], 16),
        "commitOrRollback": decision,
        "fromTransactionCheck": "false",
        "msgId": UNIQUE,
        "transactionId": half["transactionId"],
        **fields,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


async def end(client: RemotingClient, half: Ext, decision: int) -> None:
    answer = await client.ok(END, ending(half, decision))
    assert (answer.remark, answer.ext, answer.body) == (None, {}, b"")


async def refusal(client: RemotingClient, half: Ext, decision: int = COMMIT, **fields: object) -> str:
    answer = await client.call(END, ending(half, decision, **fields))
    assert answer.code == 1
    return str(answer.remark)


async def produce(client: RemotingClient, *groups: str) -> None:
    """Register as a producer of these groups."""
    await client.ok(HEART_BEAT, body=beat(client=f"{client.address}@1", producers=groups or ("makers",)))


async def question(client: RemotingClient) -> tuple[Ext, WireRecord]:
    push = await client.push()
    assert (push.code, push.is_oneway) == (CHECK, True)
    [record] = decode_records(push.body)
    return dict(push.ext), record


def answer_with(client: RemotingClient, decision: int) -> "asyncio.Task[list[Command]]":
    """Start a producer that answers every check-back; end it with ``stop``."""

    async def run() -> list[Command]:
        questions: list[Command] = []
        try:
            while True:
                push = await client.pushes.get()
                questions.append(push)
                client.oneway(
                    END,
                    {
                        "producerGroup": "makers",
                        "tranStateTableOffset": push.ext["tranStateTableOffset"],
                        "commitLogOffset": push.ext["commitLogOffset"],
                        "commitOrRollback": str(decision),
                        "fromTransactionCheck": "true",
                        "msgId": push.ext["msgId"],
                    },
                )
        except asyncio.CancelledError:
            return questions

    return asyncio.create_task(run())


async def stop(answering: "asyncio.Task[list[Command]]") -> list[Command]:
    """Stop the producer, and return its check-backs."""
    answering.cancel()
    return await answering


async def undecided(remoting: Remoting) -> list[dict[str, str]]:
    """Return the properties of half messages that the broker gave up."""
    if remoting.broker.registry.topics.find_topic(UNDECIDED_TOPIC) is None:
        return []
    return [parted(one.properties) for one in await visible(remoting.broker, UNDECIDED_TOPIC)]
