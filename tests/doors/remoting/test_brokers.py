"""Several brokers over remoting: what each of them has of its own."""

import json
import re
from pathlib import Path

import pytest

from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_MS
from mocketmq.errors import (
    BrokerDownError,
    SettingError,
)
from mocketmq.message.message import Message
from mocketmq.remoting.wire.record import decode_records
from mocketmq.settings import Settings, TopicDeclaration
from tests.doors.remoting.broker_pairs import (
    COMMIT,
    LOCK,
    MAX_OFFSET,
    PULL,
    QUERY,
    QUEUES,
    SEND,
    A,
    B,
    Pair,
    bodies,
    message_to,
    pulled,
    running_pair,
    send,
)
from tests.doors.remoting.popping import POP, pop_of
from tests.support.brokers import FREE_PORTS, GROUP, TOPIC
from tests.support.network import quiet_port
from tests.support.remoting import RemotingClient


async def test_routes_name_each_broker_with_its_port(pair: Pair) -> None:
    route = await pair.remoting.route(TOPIC)
    host = "127.0.0.1"
    assert {each["brokerName"]: each["brokerAddrs"] for each in route["brokerDatas"]} == {
        A: {"0": f"{host}:{pair.remoting.server.broker_port}"},
        B: {"0": f"{host}:{pair.port_of_b}"},
    }
    assert [(each["brokerName"], each["writeQueueNums"]) for each in route["queueDatas"]] == [(A, 2), (B, 2)]
    cluster = json.loads((await pair.b.ok(106)).body)
    assert list(cluster["brokerAddrTable"]) == cluster["clusterAddrTable"]["DefaultCluster"] == [A, B]


async def test_a_broker_has_its_own_queues(pair: Pair) -> None:
    for client, name in ((pair.a, A), (pair.b, B)):
        for queue in range(QUEUES):
            sent = await send(client, f"{name} {queue}", queue)
            assert (sent["queueId"], sent["queueOffset"]) == (str(queue), "0")
    for client, name in ((pair.a, A), (pair.b, B)):
        for queue in range(QUEUES):
            [record] = await pulled(client, queue)
            assert (record.body.decode(), record.queue_id) == (f"{name} {queue}", queue)
    with pytest.raises(AssertionError, match="is illegal"):
        await send(pair.b, "beyond", QUEUES)


async def test_message_ids_name_the_port_of_the_broker(pair: Pair) -> None:
    for client, port in ((pair.a, pair.remoting.server.broker_port), (pair.b, pair.port_of_b)):
        message_id = (await send(client, "one"))["msgId"]
        assert int(message_id[8:16], 16) == port
        viewed = await client.ok(33, {"offset": str(int(message_id[16:], 16))})
        [record] = decode_records(viewed.body)
        assert (record.body, record.queue_id) == (b"one", 0)


async def test_a_send_that_leaves_the_queue_open_stays_at_its_broker(pair: Pair) -> None:
    for number in range(20):
        await send(pair.b, str(number), -1)
    found = [await bodies(pair.b, queue) for queue in range(QUEUES)]
    assert sorted(map(int, found[0] + found[1])) == list(range(20))
    assert [await bodies(pair.a, queue) for queue in range(QUEUES)] == [[], []]


async def test_offsets_are_of_a_broker(pair: Pair) -> None:
    for client in (pair.a, pair.b):
        for body in "abc":
            await send(client, body)
    queue = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    await pair.b.ok(COMMIT, {**queue, "commitOffset": "2"})
    assert (await pair.b.ok(QUERY, queue)).ext["offset"] == "2"
    assert (await pair.a.call(QUERY, queue)).ext.get("offset") != "2"
    await send(pair.b, "d")
    ends = [(await client.ok(MAX_OFFSET, queue)).ext["offset"] for client in (pair.a, pair.b)]
    assert ends == ["3", "4"]


async def test_statistics_are_of_a_broker(pair: Pair) -> None:
    await send(pair.b, "one", 1)
    for client, name, ends in ((pair.a, A, [0, 0]), (pair.b, B, [0, 1])):
        answer = await client.ok(202, {"topic": TOPIC})
        table = answer.body.decode()
        assert table.count(f'"brokerName":"{name}"') == table.count('"brokerName"') == QUEUES
        assert [f'"maxOffset":{end}' in table for end in (0, 1)] == [True, 1 in ends]


async def test_a_reset_moves_the_offsets_of_its_broker(pair: Pair) -> None:
    queue = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    for client in (pair.a, pair.b):
        await send(client, "one")
        await client.ok(COMMIT, {**queue, "commitOffset": "1"})
    reset = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    table = (await pair.b.ok(222, reset)).body.decode()
    assert table.count(f'"brokerName":"{B}"') == table.count('"brokerName"') == QUEUES
    offsets = [(await client.ok(QUERY, queue)).ext["offset"] for client in (pair.a, pair.b)]
    assert offsets == ["1", "0"]


async def test_a_reset_is_pushed_at_its_broker_only(pair: Pair) -> None:
    consumer = {"groupName": GROUP, "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}
    consumer |= {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    beat = json.dumps({"clientID": "one", "consumerDataSet": [consumer]}).encode()
    for client in (pair.a, pair.b):
        await send(client, "one")
        await client.ok(34, body=beat)
    await pair.b.ok(222, {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"})
    pushed = {}
    for client, name in ((pair.a, A), (pair.b, B)):
        await client.ok(106)  # pushes that were sent before have then arrived
        pushed[name] = [client.pushes.get_nowait().code for _ in range(client.pushes.qsize())]
    assert [pushed[name].count(220) for name in (A, B)] == [0, 1]


async def test_write_permission_is_wiped_for_one_broker(pair: Pair) -> None:
    await pair.a.ok(205, {"brokerName": B})
    route = await pair.remoting.route(TOPIC)
    assert [(each["brokerName"], each["perm"]) for each in route["queueDatas"]] == [(A, 6), (B, 4)]


async def test_a_query_by_key_gives_as_many_messages_as_wanted_at_its_broker(pair: Pair) -> None:
    for client, name in ((pair.b, B), (pair.a, A)):
        for number in range(3):
            await send(client, f"{name} {number}", KEYS="k")
    wanted = {"topic": TOPIC, "key": "k", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}
    for client, name in ((pair.a, A), (pair.b, B)):
        answer = await client.ok(12, {**wanted, "maxNum": "3"})
        found = [record.body.decode() for record in decode_records(answer.body)]
        assert sorted(found) == [f"{name} {number}" for number in range(3)]


async def test_errors_name_the_queue_as_the_client_does(pair: Pair) -> None:
    outside = r"request queueId\[2\] is illegal, orders has 0 to 1"
    queue = {"consumerGroup": GROUP, "topic": TOPIC}
    pull = {"queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0", "commitOffset": "0"}
    handle = f"0 1 60000 0 0 {B} 2 0"
    for code, ext in (
        (SEND, message_to(2)),
        (PULL, {**queue, **pull, "queueId": "2", "suspendTimeoutMillis": "0", "subVersion": "0"}),
        (POP, {**pop_of(), "queueId": "2"}),
        (200_051, {**queue, "queueId": "2", "offset": "0", "extraInfo": handle}),
    ):
        assert re.search(outside, (await pair.b.call(code, ext)).remark or ""), code
    spent = {**queue, "queueId": "1", "offset": "0", "extraInfo": f"0 1 60000 0 0 {B} 1 0"}
    assert "popped from orders, queue 1," in str((await pair.b.call(200_051, spent)).remark)
    entries = {"topic": TOPIC, "index": "50", "count": "1"}
    assert "Index 50 of 1@orders" in str((await pair.b.call(321, {**entries, "queueId": "1"})).remark)
    assert "2@orders is not exist" in str((await pair.b.call(321, {**entries, "queueId": "2"})).remark)


# Consuming


async def test_a_pop_gets_messages_of_its_broker(pair: Pair) -> None:
    await send(pair.a, "at a", 1)
    await send(pair.b, "at b", 1)
    answer = await pair.b.ok(POP, pop_of())
    [record] = decode_records(answer.body)
    assert (record.body, record.queue_id) == (b"at b", 1)
    assert answer.ext["startOffsetInfo"] == "0 1 0"
    handle = " ".join(
        ("0", *(answer.ext[k] for k in ("popTime", "invisibleTime", "reviveQid")), "0", B, "1 0")
    )
    ack = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "1", "offset": "0", "extraInfo": handle}
    assert (await pair.a.call(200_051, ack)).code != 0  # at broker-a, this is another message
    await pair.b.ok(200_051, ack)
    await pair.advance(61)
    assert (await pair.b.call(POP, pop_of())).code == 210
    assert decode_records((await pair.a.ok(POP, pop_of())).body)[0].body == b"at a"


async def test_a_popped_message_comes_again_at_its_broker(pair: Pair) -> None:
    await send(pair.b, "at b", 1)
    await pair.b.ok(POP, pop_of())
    await pair.advance(61)
    assert (await pair.a.call(POP, pop_of())).code == 210
    assert decode_records((await pair.b.ok(POP, pop_of())).body)[0].body == b"at b"


async def test_a_retry_and_a_dead_letter_stay_at_the_broker(pair: Pair) -> None:
    message_id = (await send(pair.b, "again"))["msgId"]
    back = {"offset": str(int(message_id[16:], 16)), "group": GROUP, "originTopic": TOPIC}
    await pair.b.ok(36, {**back, "delayLevel": "1"})
    await pair.b.ok(36, {**back, "delayLevel": "-1"})
    await pair.advance(1)
    for prefix in ("%RETRY%", "%DLQ%"):
        assert await bodies(pair.b, topic=prefix + GROUP) == ["again"]
        assert await bodies(pair.a, topic=prefix + GROUP) == []


async def test_locks_are_of_a_broker_and_lost_with_it(pair: Pair) -> None:
    def wish(client_id: str, name: str) -> bytes:
        queue = {"brokerName": name, "queueId": 0, "topic": TOPIC}
        return json.dumps({"clientId": client_id, "consumerGroup": GROUP, "mqSet": [queue]}).encode()

    async def owns(client: RemotingClient, client_id: str, name: str) -> bool:
        answer = await client.ok(LOCK, body=wish(client_id, name))
        return bool(json.loads(answer.body)["lockOKMQSet"])

    assert await owns(pair.a, "one", A)
    assert await owns(pair.b, "two", B)
    assert not await owns(pair.b, "one", B)
    await pair.broker.broker_lives.crash(B)
    async with pair.back() as b:
        assert await owns(b, "one", B)
        assert not await owns(pair.a, "two", A)


async def test_a_client_of_both_brokers_is_one_consumer(pair: Pair) -> None:
    consumer = {"groupName": GROUP, "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}
    beat = json.dumps({"clientID": "one", "consumerDataSet": [consumer]}).encode()
    for client in (pair.a, pair.b):
        await client.ok(34, body=beat)
    for client in (pair.a, pair.b):
        assert json.loads((await client.ok(38, {"consumerGroup": GROUP})).body) == {"consumerIdList": ["one"]}
        connections = json.loads((await client.ok(203, {"consumerGroup": GROUP})).body)["connectionSet"]
        assert [each["clientAddr"] for each in connections] == [client.address]


async def test_assignments_are_of_all_brokers(pair: Pair) -> None:
    consumer = {"groupName": GROUP, "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}
    await pair.a.ok(34, body=json.dumps({"clientID": "one", "consumerDataSet": [consumer]}).encode())
    wanted = {
        "topic": TOPIC,
        "consumerGroup": GROUP,
        "clientId": "one",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
    }
    answer = json.loads((await pair.b.ok(400, body=json.dumps(wanted).encode())).body)
    queues = [each["messageQueue"] for each in answer["messageQueueAssignments"]]
    assert [(each["brokerName"], each["queueId"]) for each in queues] == [(A, 0), (A, 1), (B, 0), (B, 1)]


async def test_a_topic_of_the_first_broker_is_assigned_there_or_not_at_all(pair: Pair) -> None:
    topic = "SCHEDULE_TOPIC_XXXX"
    wanted = {"topic": topic, "consumerGroup": GROUP, "clientId": "one", "messageModel": "BROADCASTING"}

    async def names() -> set[str]:
        answer = json.loads((await pair.b.ok(400, body=json.dumps(wanted).encode())).body)
        return {each["messageQueue"]["brokerName"] for each in answer["messageQueueAssignments"]}

    assert await names() == {A}
    await pair.broker.broker_lives.shut_down(A)
    assert await names() == set()


async def test_a_producer_is_asked_at_the_broker_of_its_half_message(pair: Pair) -> None:
    beat = json.dumps({"clientID": "one", "producerDataSet": [{"groupName": "makers"}]}).encode()
    for client in (pair.a, pair.b):
        await client.ok(34, body=beat)
    pair.broker.check_backs.answer_s = 0.0
    await send(pair.b, "half", TRAN_MSG="true", PGROUP="makers")
    await pair.advance(6)
    asked = await pair.b.push()
    assert (asked.code, pair.a.pushes.empty()) == (39, True)
    await pair.broker.broker_lives.shut_down(B)
    await pair.advance(60 * 20)  # longer than the fifteen checks of a broker that runs
    async with pair.back() as b:
        await b.ok(34, body=beat)
        await pair.advance(60)
        assert (await b.push()).code == 39


# Lives


async def test_other_doors_send_to_brokers_that_run(pair: Pair) -> None:
    await pair.broker.broker_lives.crash(B)
    for number in range(20):
        sent = await pair.broker.sender.send(Message(TOPIC, str(number).encode()))
        assert sent.queue.queue_id % 2 == 0
    with pytest.raises(
        BrokerDownError, match=r"broker-b, which holds the message's queue of .*, is crashed; start"
    ):
        await pair.broker.sender.send(Message(TOPIC, b"one", queue_id=1))
    await pair.broker.broker_lives.crash(A)
    with pytest.raises(BrokerDownError, match=r"no broker of topic .* can be reached"):
        await pair.broker.sender.send(Message(TOPIC, b"one"))


async def test_a_delayed_message_can_be_recalled_at_its_broker(pair: Pair) -> None:
    wall_ms = (pair.broker.clock.now_us() - pair.broker.clock.from_wall(0)) // US_PER_MS
    sent = await send(pair.b, "later", __STARTDELIVERTIME=str(wall_ms + 60_000))
    await pair.b.ok(
        370, {"producerGroup": "makers", "topic": TOPIC, "recallHandle": sent["recallHandle"], "bname": B}
    )
    assert pair.broker.schemes.pending == 0


# Settings


async def test_a_store_keeps_its_number_of_brokers(tmp_path: Path) -> None:
    async with running_pair(data=str(tmp_path)):
        pass
    settings = Settings(**{**FREE_PORTS, "data": str(tmp_path), "clock": "manual"})
    with pytest.raises(SettingError, match="brokers is 1; allowed: 2"):
        async with running_emulator(settings):
            pass


async def test_a_host_is_advertised_with_the_port_of_each_broker() -> None:
    async with running_pair(advertise="localhost") as pair:
        route = await pair.remoting.route("TBW102")
        assert [each["brokerAddrs"]["0"] for each in route["brokerDatas"]] == [
            f"localhost:{pair.remoting.server.broker_port}",
            f"localhost:{pair.port_of_b}",
        ]
    with pytest.raises(SettingError, match="advertise is 'localhost:1'; allowed: a host without a port"):
        async with running_pair(advertise="localhost:1"):
            pass


async def test_fixed_ports_are_ten_apart() -> None:
    first = quiet_port(-2, 8, 10)  # the VIP ports are two below
    async with running_pair(broker_port=first) as pair:
        assert (pair.remoting.server.broker_port, pair.port_of_b) == (first, first + 10)


async def test_open_ports_name_each_broker(pair: Pair) -> None:
    doors = pair.remoting.emulator.doors
    assert list(doors.brokers) == [A, B]
    assert doors.brokers[A].broker == doors.broker
    assert doors.brokers[B].broker.port == pair.port_of_b


async def test_a_priority_is_kept_at_the_broker() -> None:
    topics = (TopicDeclaration(name=TOPIC, type="priority", read_queues=4, write_queues=4),)
    async with running_pair(topics=topics) as pair:
        for priority in "0312":
            await send(pair.b, priority, _SYS_MSG_PRIORITY_=priority)
        assert (await pair.a.call(POP, pop_of())).code == 210
        found = [await bodies(pair.b, queue) for queue in range(4)]
        assert found == [["0"], ["1"], ["2"], ["3"]]
