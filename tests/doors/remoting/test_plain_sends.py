"""Plain sends use the fast path without a task, other sends do not, and both have the same effect."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreUnavailableError
from mocketmq.faults.rule import FaultRule
from mocketmq.remoting.listening import connection
from mocketmq.remoting.listening.requests_in_progress import ConnectionLimits
from mocketmq.remoting.requests import sending
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord
from mocketmq.store import transaction_runner
from mocketmq.store.batch import INSERT_MESSAGE
from mocketmq.store.transaction_runner import Rows
from tests.doors.remoting.gates import ROUTE, Watched, until
from tests.doors.remoting.producing import BATCH, UNIQUE, V1, V2, batch, header, pulled, sent
from tests.support.brokers import TOPIC
from tests.support.held_writer import HeldWriter
from tests.support.remoting import Remoting, running_remoting

GIVEN = {"UNIQ_KEY": UNIQUE}
WITH_TAG = {"TAGS": "a", "KEYS": "k", "WAIT": "true", **GIVEN}
TIMED = {"__STARTDELIVERTIME": "253402214400000"}


async def held_sends(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch, count: int
) -> tuple[HeldWriter, list[asyncio.Future[Command]]]:
    """Send messages, and hold them up before the writer gets them."""
    writer = HeldWriter(remoting.broker, monkeypatch)
    answers = [remoting.client.ask(V2, header(V2), b"x") for _ in range(count)]
    await until(lambda: writer.requests == count)
    return writer, answers


def generally_served(remoting: Remoting, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the codes of requests that get a task, in order of arrival."""
    dispatcher, served = remoting.server.dispatcher, list[int]()
    answer = dispatcher.answer

    async def noted(channel: Any, command: Command, **more: Any) -> Command | None:
        served.append(command.code)
        return await answer(channel, command, **more)

    monkeypatch.setattr(dispatcher, "answer", noted)
    return served


@pytest.mark.interpreted
@pytest.mark.parametrize("code", [V1, V2])
@pytest.mark.parametrize(
    ("properties", "fields"),
    [
        (GIVEN, {}),
        (WITH_TAG, {"sys_flag": 1, "flag": 7}),
        ({**WITH_TAG, "DELAY": "3"}, {}),
        (GIVEN, {"queue_id": 3}),
    ],
)
async def test_plain_send_is_served_without_a_task(
    remoting: Remoting,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    properties: Mapping[str, str],
    fields: Mapping[str, Any],
) -> None:
    await sent(remoting.client)  # creates the topic
    served = generally_served(remoting, monkeypatch)
    queue_id, became = int(fields.get("queue_id", 0)), []
    for level in (logging.INFO, logging.DEBUG):  # at debug level, a task serves and logs every request
        offset = (await remoting.client.ok(30, {"topic": TOPIC, "queueId": str(queue_id)})).ext["offset"]
        with caplog.at_level(level, connection.log.name):
            answer = await sent(remoting.client, b"body", code, properties, **fields)
        await remoting.broker.mover.advance(100 * US_PER_S)
        [record] = await pulled(remoting.client, queue_id=queue_id, offset=int(offset))
        became.append((_comparable(answer), _comparable_record(record)))
    assert became[0] == became[1]
    assert served.count(code) == 1


async def test_lone_send_is_committed_without_a_turn_of_the_writer(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_runner, "SLOW_US", 60 * US_PER_S)  # this machine's disk may stall
    await sent(remoting.client)  # creates the topic
    database, turns = remoting.broker.store.database, list[int]()
    transact = database.transact

    async def noted(statements: Mapping[str, Rows], *size: Any) -> None:
        turns.extend([1] * len(statements[INSERT_MESSAGE]))
        await transact(statements, *size)

    monkeypatch.setattr(database, "transact", noted)
    offsets = [(await sent(remoting.client))["queueOffset"] for _ in range(3)]
    assert offsets == ["1", "2", "3"]
    assert not turns
    async with remoting.another() as other:
        for client in (other, remoting.client, other):
            await sent(client)
    assert len(turns) == 3, "with several clients, the sends of one turn share a transaction"


def _comparable(answer: Mapping[str, str]) -> Mapping[str, str]:
    return {name: text for name, text in answer.items() if name not in ("msgId", "queueOffset")}


def _comparable_record(record: WireRecord) -> WireRecord:
    return record._replace(log_offset=0, queue_offset=0, born_ms=0, store_ms=0)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("code", "body", "properties", "fields"),
    [
        (BATCH, batch((b"x", {}), (b"y", {})), {}, {}),
        (V2, b"x", {"TRAN_MSG": "true", "PGROUP": "makers"}, {"sys_flag": 4}),
        (V2, b"x", TIMED, {}),
        (V2, b"x", {}, {"topic": "%RETRY%billing", "reconsume_times": 1}),
        (V2, b"x", {}, {"topic": "new"}),
        (V2, b"", {}, {}),
        (V2, b"x", {}, {"queue_id": 99}),
        (V2, b"x", {"DELAY": "soon"}, {}),
        (V2, b"x", {}, {"topic": "SCHEDULE_TOPIC_XXXX"}),
        (V2, b"x", {}, {"born_timestamp": "today"}),
    ],
)
async def test_every_other_send_gets_a_task(
    remoting: Remoting,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    body: bytes,
    properties: Mapping[str, str],
    fields: Mapping[str, Any],
) -> None:
    await remoting.broker.registry.groups.for_use("billing")
    await sent(remoting.client)
    served = generally_served(remoting, monkeypatch)
    await remoting.client.call(code, header(code, properties, **fields), body)
    assert served == [code]


@pytest.mark.interpreted
async def test_fault_rule_disables_the_fast_path(remoting: Remoting, monkeypatch: pytest.MonkeyPatch) -> None:
    await sent(remoting.client)
    served = generally_served(remoting, monkeypatch)
    await remoting.broker.faults.add_rule(FaultRule(do="close", topic="others"))
    await sent(remoting.client)
    assert served == [V2]
    await remoting.broker.faults.clear()
    await sent(remoting.client)
    assert served == [V2]


async def test_a_plain_send_does_not_overtake_earlier_requests(remoting: Remoting) -> None:
    await sent(remoting.client)
    before = Command(code=BATCH, opaque=1_001, ext=header(BATCH), body=batch((b"1", {}), (b"2", {})))
    plain = [Command(code=V2, opaque=1_002 + n, ext=header(V2), body=b"%d" % (3 + n)) for n in range(3)]
    answers = [remoting.client.expect(command.opaque) for command in (before, *plain)]
    remoting.client.send(before, *plain)
    assert {answer.code for answer in await asyncio.gather(*answers)} == {0}
    bodies = [record.body for record in await pulled(remoting.client, offset=1)]
    assert bodies == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.interpreted
async def test_sends_of_one_transaction_are_answered_by_one_write(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(remoting.client)
    writer = HeldWriter(remoting.broker, monkeypatch)
    [served] = remoting.server.hub.connections
    written: list[bytes] = []
    served._transport = Watched(served._transport, written)  # type: ignore[arg-type, assignment]
    commands = [Command(code=V2, opaque=1_000 + number, ext=header(V2), body=b"x") for number in range(20)]
    answers = [remoting.client.expect(command.opaque) for command in commands]
    remoting.client.send(*commands)
    await until(lambda: writer.requests == 20)
    works = len(writer.held)
    writer.let_go()
    assert works == 1, "the sends of a read are one piece of work"
    await asyncio.gather(*answers)
    assert len(written) == 1


SPECIAL = {
    "delayed": (V2, {"properties": "DELAY\x013\x02"}, 0),
    "timed": (V2, {"properties": "TIMER_DELAY_SEC\x015\x02"}, 0),
    "to another topic": (V2, {"topic": "new"}, 0),
    "half": (V2, {"properties": "TRAN_MSG\x01true\x02PGROUP\x01makers\x02", "sys_flag": 4}, 0),
    "to no queue": (V2, {"queue_id": 99}, 29),
    "born at no time": (V2, {"born_timestamp": -1}, 1),
    "with full names": (V1, {}, 0),
    "without need of an answer": (V2, {}, None),
}


@pytest.mark.parametrize("special", SPECIAL)
async def test_plain_sends_beside_one_that_is_not_are_served_as_always(
    remoting: Remoting, special: str
) -> None:
    await sent(remoting.client)
    code, fields, expected = SPECIAL[special]
    commands = [
        Command(code=V2, opaque=1_000 + number, ext=header(V2), body=b"%d" % number) for number in range(4)
    ]
    commands[1] = Command(
        code=code,
        opaque=1_001,
        flag=2 if expected is None else 0,
        ext=header(code, **fields),  # type: ignore[arg-type]
        body=b"1",
    )
    answers = [remoting.client.expect(each.opaque) for each in commands if not each.is_oneway]
    remoting.client.send(*commands)
    codes = [answer.code for answer in await asyncio.gather(*answers)]
    assert codes == [0, *([] if expected is None else [expected]), 0, 0]
    bodies = [record.body for record in await pulled(remoting.client, offset=1)]
    is_there = special in ("with full names", "without need of an answer")
    assert bodies == [b"0", *[b"1"] * is_there, b"2", b"3"]


@pytest.mark.interpreted
async def test_sends_of_a_read_are_refused_together_when_their_topic_is_gone(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(remoting.client)
    writer, answers = await held_sends(remoting, monkeypatch, 3)
    monkeypatch.setattr(remoting.broker.registry.topics, "_closing", {TOPIC})
    writer.let_go()
    assert {answer.code for answer in await asyncio.gather(*answers)} == {17}


@pytest.mark.interpreted
async def test_only_those_sends_of_a_read_are_refused_whose_queue_is_gone(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = remoting.broker
    await broker.registry.topics.put(TOPIC, 1, 1, 6)
    await broker.snapshots.save("here")
    await broker.registry.topics.put(TOPIC, 4, 4, 6)
    writer = HeldWriter(broker, monkeypatch)
    commands = [
        Command(code=V2, opaque=1_000 + number, ext=header(V2, queue_id=queue), body=b"%d" % number)
        for number, queue in enumerate((0, 3, 0))
    ]
    answers = [remoting.client.expect(command.opaque) for command in commands]
    remoting.client.send(*commands)
    await until(lambda: writer.requests == 3)
    assert len(writer.held) == 1
    writer.hold_no_more()
    await broker.snapshots.restore("here")
    writer.let_go()
    found = await asyncio.gather(*answers)
    assert [answer.code for answer in found] == [0, 17, 0]
    assert found[1].remark == f"topic[{TOPIC}] has no queue 3 any more"
    assert [record.body for record in await pulled(remoting.client)] == [b"0", b"2"]


@pytest.mark.interpreted
async def test_reading_pauses_while_many_sends_are_in_progress(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(remoting.client)
    await until(lambda: not remoting.server.held_bytes)
    remoting.server.hub.limits = ConnectionLimits(running=10)
    writer, answers = await held_sends(remoting, monkeypatch, 10)
    late = remoting.client.ask(105, ROUTE)
    async with remoting.another() as other:
        for _ in range(20):
            await other.ok(105, ROUTE)
    assert not late.done()
    assert remoting.server.held_bytes > 10 * 1_024
    writer.let_go()
    await asyncio.gather(late, *answers)
    await until(lambda: not remoting.server.held_bytes)


@pytest.mark.interpreted
async def test_a_send_is_stored_when_its_client_disconnects(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(remoting.client)
    writer = HeldWriter(remoting.broker, monkeypatch)
    async with remoting.another() as other:
        answer = other.ask(V2, header(V2), b"last words")
        await until(lambda: writer.held)
    await until(lambda: remoting.server.hub.leaving)
    assert remoting.server.connections == 1
    writer.let_go()
    await until(lambda: not remoting.server.hub.leaving)
    assert answer.exception() is not None
    [record] = await pulled(remoting.client, offset=1)
    assert record.body == b"last words"
    assert remoting.server.held_bytes == 0


@pytest.mark.interpreted
async def test_a_stopping_server_answers_sends_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client)
        writer, answers = await held_sends(remoting, monkeypatch, 5)
        closing = asyncio.create_task(remoting.server.close())
        await until(lambda: all(one._is_stopping for one in remoting.server.hub.connections))
        assert not closing.done()
        writer.let_go()
        assert {answer.code for answer in await asyncio.gather(*answers)} == {0}
        await closing


@pytest.mark.interpreted
async def test_each_send_fails_with_its_transaction(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(remoting.client)
    writer, answers = await held_sends(remoting, monkeypatch, 3)
    for _work, waiter in writer.held:
        waiter.set_exception(StoreUnavailableError("the disk is full"))
    for answer in await asyncio.gather(*answers):
        assert (answer.code, answer.remark) == (14, "the disk is full")
        assert answer.ext == dict(sending.EXT)
    assert remoting.server.dispatcher.answered["310", 14] == 3


@pytest.mark.interpreted
async def test_defect_in_the_count_of_one_send_spares_the_others(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent(remoting.client)
    intake, counted = remoting.broker.sender.intake, []
    count = intake.count

    def defective(accepted: Any) -> None:
        counted.append(accepted)
        if len(counted) == 2:
            raise ZeroDivisionError
        count(accepted)

    monkeypatch.setattr(intake, "count", defective)
    commands = [Command(code=V2, opaque=1_000 + number, ext=header(V2), body=b"x") for number in range(4)]
    answers = [remoting.client.expect(command.opaque) for command in commands]
    remoting.client.send(*commands)
    assert [answer.code for answer in await asyncio.gather(*answers)] == [0, 1, 0, 0]


@pytest.mark.interpreted
async def test_defect_in_one_answer_spares_the_others(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await sent(remoting.client)
    respond, calls = sending.response_to, []

    def defective(*given: Any) -> Any:
        calls.append(given)
        return 1 / 0 if len(calls) == 2 else respond(*given)

    monkeypatch.setattr(sending, "response_to", defective)
    writer, answers = await held_sends(remoting, monkeypatch, 3)
    writer.let_go()
    assert [answer.code for answer in await asyncio.gather(*answers)] == [0, 1, 0]
    assert "a request failed because of a defect in mocketmq" in caplog.text
