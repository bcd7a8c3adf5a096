"""Static topics: logical queues that are mapped to the queues of two brokers, and move between them."""

import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import NoPermissionError
from mocketmq.message.message import Message
from mocketmq.remoting.wire.record import decode_records
from mocketmq.settings import BrokerDeclaration
from tests.doors.remoting.broker_pairs import (
    COMMIT,
    MAX_OFFSET,
    PULL,
    QUERY,
    SEND,
    A,
    B,
    Pair,
    bodies,
    message_to,
    running_pair,
    send,
)
from tests.doors.remoting.static_topics import (
    ALTERNATING,
    AT_A,
    BLOCK,
    NOT_FOUND,
    RETRY,
    STATIC,
    Hosted,
    Item,
    Move,
    bounds,
    commit,
    create,
    detail,
    header,
    move,
    move_between,
    of_queue,
    offset_of,
    pull,
    pull_all,
    put,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient, running_remoting

NOT_LEADER, MOVED, SYSTEM_ERROR = 501, 21, 1
SEARCH, MIN_OFFSET, EARLIEST, CONFIG, UPDATE_TOPIC, DELETE_TOPIC, CONSUME_STATS = (
    29,
    31,
    32,
    351,
    17,
    215,
    208,
)
COMMITS, SUSPENDS = 1, 2


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair() as pair:
        yield pair


# A static topic before anything moves


async def test_a_route_has_the_logical_queues_of_each_broker(pair: Pair) -> None:
    assert "topicQueueMappingByBroker" not in await pair.remoting.route("TBW102")
    await create(pair, ALTERNATING)
    route = await pair.remoting.route(TOPIC)
    assert route["topicQueueMappingByBroker"] == {
        name: {
            "bname": name,
            "currIdMap": ids,
            "dirty": False,
            "epoch": 1,
            "scope": "__global__",
            "topic": TOPIC,
            "totalQueues": 4,
        }
        for name, ids in ((A, {"0": 0, "2": 1}), (B, {"1": 0, "3": 1}))
    }
    assert [(each["brokerName"], each["writeQueueNums"]) for each in route["queueDatas"]] == [(A, 2), (B, 2)]


async def test_the_settings_of_the_topic_have_the_mapping_if_asked_for(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    for client, name in ((pair.a, A), (pair.b, B)):
        config = json.loads((await client.ok(CONFIG, {"topic": TOPIC, "lo": "true"})).body)
        assert config["mappingDetail"] == detail(name, ALTERNATING[name], queues=4)
        assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (2, 2, 6)
        assert "mappingDetail" not in json.loads((await client.ok(CONFIG, {"topic": TOPIC})).body)


async def test_a_message_goes_to_the_queue_of_its_logical_queue(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    for number, client in enumerate((pair.a, pair.b, pair.a, pair.b)):
        for offset in range(2):
            ext = await send(client, f"{number}-{offset}", number)
            assert (ext["queueId"], ext["queueOffset"]) == (str(number), str(offset))
        assert await pull_all(client, number=number) == [(f"{number}-0", 0), (f"{number}-1", 1)]
        assert await offset_of(client, MAX_OFFSET, number) == 2
    topic = pair.broker.registry.topics.get(TOPIC)
    assert [queue.next_offset for queue in topic.queues] == [2, 2, 2, 2]


async def test_the_broker_chooses_a_logical_queue_that_it_leads(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    chosen = {(await send(pair.b, "x", -1))["queueId"] for _ in range(40)}
    assert chosen == {"1", "3"}


async def test_a_broker_refuses_logical_queues_that_it_does_not_lead(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    asked: dict[int, dict[str, str]] = {
        SEND: message_to(1),
        COMMIT: of_queue(1, commitOffset="0"),
        QUERY: of_queue(1),
        SEARCH: of_queue(1, timestamp="0"),
        **dict.fromkeys((MAX_OFFSET, MIN_OFFSET, EARLIEST), of_queue(1)),
    }
    for code, ext in asked.items():
        refused = await pair.a.call(code, ext, b"x")
        assert (refused.code, refused.remark) == (
            NOT_LEADER,
            f"{TOPIC}-1 does not exit in request process of current broker {A}",
        ), code
    assert (await pull(pair.a, 0, 1)).code == NOT_LEADER
    assert (await pair.a.call(SEND, message_to(4), b"x")).code == NOT_LEADER
    assert all(not queue.next_offset for queue in pair.broker.registry.topics.get(TOPIC).queues)


async def test_a_batch_goes_to_one_logical_queue(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    entry = struct.pack(">iiiii", 32, 0, 0, 0, 2) + b"hi" + b"\0\x08TAGS\x01ab\x02"
    ext = dict(
        zip("abcdefghijm", ("PG", TOPIC, "TBW102", "4", "3", "0", "0", "0", "", "0", "true"), strict=True)
    )
    sent = await pair.b.ok(320, ext, 2 * entry)
    assert (sent.ext["queueId"], sent.ext["queueOffset"]) == ("3", "0")
    assert [body for body, _ in await pull_all(pair.b, number=3)] == ["hi", "hi"]


async def test_a_request_of_a_broker_names_the_brokers_own_queue(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    await send(pair.b, "x", 3)
    assert await offset_of(pair.b, MAX_OFFSET, 1, lo="false") == 1
    assert await offset_of(pair.b, MAX_OFFSET, 0, lo="false") == 0


async def test_other_topics_are_as_before(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    await pair.broker.registry.topics.put("plain", 2, 2, 6)
    ext = message_to(1) | {"topic": "plain"}
    sent = await pair.b.ok(SEND, ext, b"x")
    assert (sent.ext["queueId"], sent.ext["queueOffset"]) == ("1", "0")
    assert await bodies(pair.b, 1, "plain") == ["x"]


# After a logical queue has moved


async def test_messages_keep_their_order_over_a_move(pair: Pair) -> None:
    await create(pair, AT_A)
    for body in "ab":
        await send(pair.a, body)
    await move(pair)
    assert (await pair.a.call(SEND, message_to(0), b"late")).code == NOT_LEADER
    assert (await send(pair.b, "c"))["queueOffset"] == str(BLOCK)
    assert await pull_all(pair.b) == [("a", 0), ("b", 1), ("c", BLOCK)]
    route = await pair.remoting.route(TOPIC)
    assert [each["currIdMap"] for each in route["topicQueueMappingByBroker"].values()] == [{}, {"0": 0}]


async def test_a_pull_at_the_end_of_the_older_queue_leads_to_the_newer_one(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    assert bounds(await pull(pair.b, 0)) == (0, 1, 0, BLOCK)
    for offset in (1, 2, BLOCK - 1):
        assert bounds(await pull(pair.b, offset, flags=SUSPENDS, wait_ms=60_000))[:2] == (RETRY, BLOCK)
    assert bounds(await pull(pair.b, BLOCK)) == (NOT_FOUND, BLOCK, BLOCK, BLOCK)
    assert bounds(await pull(pair.b, BLOCK + 5))[:2] == (MOVED, BLOCK)


async def test_an_answer_has_the_bounds_of_the_queue_that_the_consumer_reads_next(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    for body in "bc":
        await send(pair.b, body)
    found, passed = await pull(pair.b, 0), await pull(pair.b, 1)
    assert bounds(found) == (0, 1, 0, BLOCK)  # as upstream, with the beginning of the newest queue
    assert bounds(passed) == (RETRY, BLOCK, BLOCK, BLOCK)
    assert [each.ext["offsetDelta"] for each in (found, passed)] == ["0", str(BLOCK)]
    assert (found.remark, passed.remark) == (None, None)
    assert bounds(await pull(pair.b, BLOCK)) == (0, BLOCK + 2, BLOCK, BLOCK + 2)


@pytest.mark.parametrize("advertise", [None, "10.1.2.3"])
async def test_a_message_names_the_broker_that_has_stored_it(advertise: str | None) -> None:
    declared = tuple(BrokerDeclaration(name=name, advertise=advertise) for name in (A, B))
    async with running_pair(declared_brokers=declared) as pair:
        await create(pair, AT_A)
        await send(pair.a, "a")
        await move(pair)
        await send(pair.b, "b")
        hosts = [
            record.store_host
            for offset in (0, BLOCK)
            for record in decode_records((await pull(pair.b, offset)).body)
        ]
        ports = [each.port for each in pair.broker.registry.brokers]
        assert hosts == [f"{advertise or '127.0.0.1'}:{port}" for port in ports]


async def test_a_pull_waits_for_the_first_message_of_the_newer_queue(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    async with pair.remoting.another(pair.port_of_b) as consumer:
        waiting = consumer.ask(
            PULL,
            of_queue(
                queueOffset=str(BLOCK),
                maxMsgNums="32",
                sysFlag="2",
                commitOffset="0",
                suspendTimeoutMillis="600000",
                subVersion="0",
            ),
        )
        await send(pair.b, "b")
        answer = await waiting
    assert bounds(answer) == (0, BLOCK + 1, BLOCK, BLOCK + 1)


async def test_an_older_queue_without_messages_is_passed_over(pair: Pair) -> None:
    await create(pair, AT_A)
    await move(pair)
    await send(pair.b, "a")
    assert await pull_all(pair.b) == [("a", BLOCK)]


async def test_offsets_are_found_in_all_queues_of_a_logical_queue(pair: Pair) -> None:
    await create(pair, AT_A)
    clock, times = pair.broker.clock, []
    for client, body in ((pair.a, "a"), (pair.a, "b"), (pair.b, "c"), (pair.b, "d")):
        if body == "c":
            await move(pair)
        times.append(clock.now_us())
        await send(client, body)
        await pair.advance(1)
    assert await offset_of(pair.b, MIN_OFFSET) == 0
    assert await offset_of(pair.b, MAX_OFFSET) == BLOCK + 2
    assert (await pair.b.ok(EARLIEST, of_queue())).ext["timestamp"] == str(times[0] // US_PER_MS)

    async def at(instant_us: int, boundary: str) -> int:
        timestamp = str(clock.to_wall(instant_us) // US_PER_MS)
        return await offset_of(pair.b, SEARCH, timestamp=timestamp, boundaryType=boundary)

    half = US_PER_S // 2
    assert [await at(each, "lower") for each in times] == [0, 1, BLOCK, BLOCK + 1]
    assert [await at(each + half, "lower") for each in times] == [1, BLOCK, BLOCK + 1, BLOCK + 2]
    assert [await at(each + half, "upper") for each in times] == [0, 1, BLOCK, BLOCK + 1]
    assert await at(times[0] - half, "upper") == 0


async def test_commits_go_to_the_queue_that_has_the_offset(pair: Pair) -> None:
    await move_between(pair, "ab", "c")
    first, second = pair.broker.registry.topics.get(TOPIC).queues[:2]
    assert (await pair.b.call(QUERY, of_queue())).code == 22  # the client decides, as it may begin anywhere
    await commit(pair.b, 1)
    assert await offset_of(pair.b, QUERY) == 1
    await commit(pair.b, BLOCK + 1)
    assert await offset_of(pair.b, QUERY) == BLOCK + 1
    queues = pair.broker.consuming_groups.get(GROUP).queues
    assert {queue: each.committed_offset for queue, each in queues.items()} == {first: 2, second: 1}


async def test_a_pull_commits_in_the_queue_that_it_reads(pair: Pair) -> None:
    await move_between(pair, "ab", "cd")
    await pull(pair.b, BLOCK + 1, flags=COMMITS, commit=BLOCK + 1)
    assert await offset_of(pair.b, QUERY) == BLOCK + 1
    await pull(pair.b, BLOCK + 1, flags=COMMITS, commit=1)  # of the older queue: by a request of its own
    assert await offset_of(pair.b, QUERY) == BLOCK + 1


async def test_a_group_begins_at_the_first_message_of_a_queue_that_never_moved(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    assert await offset_of(pair.a, QUERY) == 0
    assert (await pair.a.call(QUERY, of_queue(setZeroIfNotFound="false"))).code in (0, 22)


async def test_while_a_queue_moves_its_messages_wait_for_their_logical_offset(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    moving = Move(pair)
    await moving.begin()
    assert (await send(pair.b, "b"))["queueOffset"] == "-1"
    assert await pull_all(pair.b) == [("a", 0)]
    assert await offset_of(pair.b, MAX_OFFSET) == 1
    await moving.decide()
    assert await pull_all(pair.b) == [("a", 0), ("b", BLOCK)]


async def test_a_queue_moves_back_to_another_queue_of_its_first_broker(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    await send(pair.b, "b")
    items: list[Item] = [(0, 0, A, 0), (1, 0, B, BLOCK), (2, 1, A, 2 * BLOCK)]
    await put(pair.a, detail(A, {0: items}, epoch=3), 2)
    await put(pair.b, detail(B, {0: items}, epoch=3), 1)
    await send(pair.a, "c")
    assert await pull_all(pair.a) == [("a", 0), ("b", BLOCK), ("c", 2 * BLOCK)]
    await commit(pair.a, BLOCK + 1)
    assert await offset_of(pair.a, QUERY) == BLOCK + 1
    assert await offset_of(pair.a, MAX_OFFSET) == 2 * BLOCK + 1


async def test_older_messages_need_their_broker(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    await send(pair.b, "b")
    await pair.broker.broker_lives.crash(A)
    refused = await pull(pair.b, 0)
    assert refused.code == SYSTEM_ERROR
    assert (refused.remark or "").startswith(
        f"{A}, which holds older messages of a logical queue of {TOPIC}, is "
    )
    assert bounds(await pull(pair.b, BLOCK)) == (0, BLOCK + 1, BLOCK, BLOCK + 1)
    await commit(pair.b, BLOCK + 1)
    assert await offset_of(pair.b, QUERY) == BLOCK + 1


async def test_a_slave_hands_out_the_messages_of_a_leader_that_is_down() -> None:
    async with running_pair(slaves=1) as pair:
        await create(pair, AT_A)
        await send(pair.a, "a")
        await move(pair)
        await send(pair.b, "b")
        port = pair.broker.registry.brokers.broker_named(B).slave_port
        assert port
        await pair.broker.broker_lives.crash(B)
        async with pair.remoting.another(port) as slave:
            assert await pull_all(slave) == [("a", 0), ("b", BLOCK)]
            await commit(slave, BLOCK + 1)
            assert await offset_of(slave, QUERY) == BLOCK + 1


async def test_tools_see_in_which_queues_a_group_has_an_offset(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await commit(pair.a, 1)
    await move(pair)
    await send(pair.b, "b")

    async def offset(client: RemotingClient) -> list[int]:
        body = (await client.ok(CONSUME_STATS, {"consumerGroup": GROUP, "topic": TOPIC})).body
        found = [part.split(b",")[0] for part in body.split(b'"consumerOffset":')[1:]]
        return [int(each) for each in found]

    assert (await offset(pair.a), await offset(pair.b)) == ([1], [-1])
    await commit(pair.b, BLOCK + 1)
    assert (await offset(pair.a), await offset(pair.b)) == ([1], [1])


# Other doors, changes, restarts


async def test_other_doors_send_only_to_queues_that_are_in_use(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    for number in range(10):
        await pair.broker.sender.send(Message(TOPIC, str(number).encode(), {}))
    assert [body for body, _ in await pull_all(pair.b)] == ["a", *map(str, range(10))]
    with pytest.raises(NoPermissionError, match=r"no logical queue .* is mapped to queue 0 now"):
        await pair.broker.sender.send(Message(TOPIC, b"x", {}, 0))


async def test_an_ordinary_change_of_the_topic_keeps_its_mappings(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    await pair.a.ok(UPDATE_TOPIC, header(3, perm="4"))
    topic = pair.broker.registry.topics.get(TOPIC)
    assert topic.at_broker(0) == (3, 3, 4)
    assert topic.mapping_at(0) and topic.mapping_at(1)
    refused = await pair.a.call(SEND, message_to(0), b"x")
    assert (refused.code, refused.remark) == (16, f"the topic[{TOPIC}] sending message is forbidden")


async def test_a_deleted_static_topic_leaves_an_ordinary_one(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    await pair.a.ok(DELETE_TOPIC, {"topic": TOPIC})
    assert not pair.broker.registry.topics.static_topics
    await send(pair.a, "x")
    assert "topicQueueMappingByBroker" not in await pair.remoting.route(TOPIC)


@pytest.mark.parametrize("names", [(A, B), ("renamed", B)])
async def test_a_restart_keeps_mappings_and_offsets(tmp_path: Path, names: tuple[str, str]) -> None:
    data = str(tmp_path / "data")
    async with running_pair(data=data) as pair:
        await create(pair, AT_A)
        await send(pair.a, "a")
        await move(pair)
        await send(pair.b, "b")
        await commit(pair.b, BLOCK)
    declared = tuple(BrokerDeclaration(name=name) for name in names)
    async with running_pair(data=data, declared_brokers=declared) as pair:
        mappings = (await pair.remoting.route(TOPIC))["topicQueueMappingByBroker"]
        assert {name: each["bname"] for name, each in mappings.items()} == {name: name for name in names}
        assert (await pair.a.call(SEND, message_to(0), b"x")).code == NOT_LEADER
        assert (await send(pair.b, "c"))["queueOffset"] == str(BLOCK + 1)
        assert await offset_of(pair.b, QUERY) == BLOCK
        assert await pull_all(pair.b) == [("a", 0), ("b", BLOCK), ("c", BLOCK + 1)]


async def test_a_snapshot_brings_mappings_back(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await pair.broker.snapshots.save("before")
    await move(pair)
    await send(pair.b, "b")
    await pair.broker.snapshots.restore("before")
    assert (await pair.b.call(SEND, message_to(0), b"x")).code == NOT_LEADER
    await send(pair.a, "c")
    assert await pull_all(pair.a) == [("a", 0), ("c", 1)]


async def test_the_only_broker_may_have_static_topics() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await put(client, detail(A, {0: [(0, 1, A, 0)], 1: [(0, 0, A, 0)]}, queues=2), 2)
        await send(client, "x", 0)
        assert await pull_all(client, number=0) == [("x", 0)]
        assert remoting.broker.registry.topics.get(TOPIC).queues[1].next_offset == 1


# What is refused


def _item(**changed: Any) -> dict[str, Any]:
    items: list[dict[str, Any]] = detail(A, {0: [(0, 0, A, 0)]})["hostedQueues"]["0"]
    return items[0] | changed


ORDER: Hosted = {0: [(0, 0, A, 0), (1, 1, A, 0)]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another-broker": ({"bname": B}, f"bname is '{B}'; allowed: {A}, which this request has reached"),
    "another-topic": ({"topic": "other"}, f"topic is 'other'; allowed: {TOPIC}, as in the request's header"),
    "dirty": ({"dirty": True}, "dirty is True; allowed: false"),
    "no-items": ({"hostedQueues": {"0": []}}, "hostedQueues 0 is []; allowed: at least one item"),
    "no-number": ({"hostedQueues": {"x": []}}, "hostedQueues is 'x'; allowed: numbers of queues, 0 to 1023"),
    "a-large-number": ({"hostedQueues": {"9" * 5_000: []}}, "allowed: numbers of queues, 0 to 1023"),
    "a-list": ({"hostedQueues": [1]}, "hostedQueues is [1]; allowed: a JSON object"),
    "too-many": ({"totalQueues": 1_025}, "totalQueues is 1025; allowed: 0 to 1024"),
    "a-start": ({"hostedQueues": {"0": [_item(startOffset=5)]}}, "startOffset is 5; allowed: 0"),
    "an-end": ({"hostedQueues": {"0": [_item(endOffset=5)]}}, "endOffset is 5; allowed: -1"),
    "generation": ({"hostedQueues": {"0": [_item(gen=-1)]}}, "gen is -1; allowed: 0 to 1024"),
    "unknown-broker": ({"hostedQueues": {"0": [_item(bname="broker-z")]}}, "broker-z"),
    "undecided": (
        {"hostedQueues": {"0": [_item(logicOffset=-1), _item(gen=1)]}},
        "The non-latest item has negative logic offset",
    ),
    "same-generation": (
        {"hostedQueues": {"0": [_item(), _item(logicOffset=5)]}},
        "The gen does not increase monotonically",
    ),
    "same-offset": (
        {"hostedQueues": {"0": [_item(), _item(gen=1)]}},
        "The base logic offset does not increase monotonically",
    ),
    "small-epoch": ({"epoch": 0}, "Can't accept data with small epoch 0 < 1"),
    "scope": ({"scope": "other"}, "Can't accept data with unmatched scope other != __global__"),
    "less": ({"hostedQueues": {}}, "Cannot accept equal epoch with null data"),
    "another-leader": (
        {"hostedQueues": {"0": [_item(), _item(gen=1, logicOffset=BLOCK)]}},
        "The new leader is different but epoch equal",
    ),
    "another-item": ({"hostedQueues": {"0": [_item(queueId=1)]}}, "mapping item 0 is "),
}


@pytest.mark.parametrize(("changed", "reason"), REFUSED.values(), ids=REFUSED)
async def test_a_wrong_mapping_is_refused_and_changes_nothing(
    pair: Pair, changed: dict[str, Any], reason: str
) -> None:
    await create(pair, AT_A)
    before = pair.broker.registry.topics.get(TOPIC)
    mapping = detail(A, AT_A[A]) | changed
    refused = await pair.a.call(STATIC, header(1), json.dumps(mapping).encode())
    assert refused.code == SYSTEM_ERROR
    assert reason in (refused.remark or "")
    assert pair.broker.registry.topics.get(TOPIC) is before


async def test_a_forced_mapping_replaces_another(pair: Pair) -> None:
    await create(pair, AT_A)
    mapping = detail(A, {1: [(0, 1, A, 0)]}, queues=2, epoch=0)
    await pair.a.ok(STATIC, header(2, force="true"), json.dumps(mapping).encode())
    config = json.loads((await pair.a.ok(CONFIG, {"topic": TOPIC, "lo": "true"})).body)
    assert set(config["mappingDetail"]["hostedQueues"]) == {"0", "1"}
    assert config["mappingDetail"]["epoch"] == 0


@pytest.mark.parametrize(
    ("changed", "code", "reason"),
    [
        ({"topic": "RMQ_SYS_TRACE_TOPIC"}, 29, "is conflict with system topic"),
        ({"topic": "%RETRY%billing"}, 1, "a topic that belongs to no group"),
        ({"perm": "9"}, 1, "perm is 9"),
        ({"readQueueNums": "-1"}, 1, "read_queues is -1; allowed: 0 to 1024"),
        ({"topicFilterType": "ANY"}, 1, "topicFilterType is 'ANY'"),
    ],
)
async def test_a_wrong_header_is_refused(pair: Pair, changed: dict[str, str], code: int, reason: str) -> None:
    ext = header(1, **changed)
    mapping = detail(A, AT_A[A], topic=ext["topic"])
    refused = await pair.a.call(STATIC, ext, json.dumps(mapping).encode())
    assert (refused.code, reason in (refused.remark or "")) == (code, True), refused.remark
    assert not pair.broker.registry.topics.static_topics


async def test_a_name_server_takes_no_mapping(pair: Pair) -> None:
    async with pair.remoting.another(pair.remoting.server.namesrv_port) as client:
        refused = await client.call(STATIC, header(1), json.dumps(detail(A, AT_A[A])).encode())
    assert (refused.code, refused.remark) == (
        1,
        "a mapping belongs to one broker; send this request to that broker",
    )
