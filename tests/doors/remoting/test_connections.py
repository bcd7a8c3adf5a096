"""Tools ask for connected clients: 203, 204 and 328."""

from mocketmq.clock import wall_us
from tests.doors.remoting.consuming import HEART_BEAT, beat, consumer, subscription
from tests.doors.remoting.inspection import ALL_PRODUCERS, CONSUMERS, PRODUCERS, look
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import running_remoting


async def test_consumers_of_a_group_are_listed() -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        wanted = subscription(expression="b || a", version=7)
        await other.ok(HEART_BEAT, body=beat(consumer(wanted), client="old"), language="GO", version=317)
        newest = consumer(wanted, consumeFromWhere="CONSUME_FROM_TIMESTAMP", consumeType="CONSUME_ACTIVELY")
        await remoting.client.ok(HEART_BEAT, body=beat(newest, client="new"), language="JAVA", version=479)
        found = await look(remoting.client, CONSUMERS, consumerGroup=GROUP)
        assert found == {
            "connectionSet": [
                {
                    "clientAddr": remoting.client.address,
                    "clientId": "new",
                    "language": "JAVA",
                    "version": 479,
                },
                {"clientAddr": other.address, "clientId": "old", "language": "GO", "version": 317},
            ],
            "consumeFromWhere": "CONSUME_FROM_TIMESTAMP",
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {
                TOPIC: {
                    "classFilterMode": False,
                    "codeSet": [97, 98],
                    "expressionType": "TAG",
                    "subString": "b || a",
                    "subVersion": 7,
                    "tagsSet": ["a", "b"],
                    "topic": TOPIC,
                }
            },
        }


async def test_sql_expressions_are_listed() -> None:
    async with running_remoting() as remoting:
        everything, sql = (
            subscription("one"),
            subscription("two", "a || b > 1", expressionType="SQL92"),
        )
        await remoting.client.ok(HEART_BEAT, body=beat(consumer(everything, sql)))
        table = (await look(remoting.client, CONSUMERS, consumerGroup=GROUP))["subscriptionTable"]
        assert [table[topic]["tagsSet"] for topic in ("one", "two")] == [[], []]
        assert table["two"]["expressionType"] == "SQL92"


async def test_offline_groups_are_refused() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        answer = await remoting.client.call(CONSUMERS, {"consumerGroup": GROUP})
        assert (answer.code, answer.remark) == (206, f"the consumer group[{GROUP}] not online")
        answer = await remoting.client.call(PRODUCERS, {"producerGroup": "makers"})
        assert (answer.code, answer.remark) == (1, "the producer group[makers] not exist")
        assert await look(remoting.client, ALL_PRODUCERS) == {"data": {}}


async def test_producers_of_a_group_are_listed() -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        before_ms = wall_us() // 1_000
        await remoting.client.ok(HEART_BEAT, body=beat(client="one", producers=("makers", "spare")))
        await other.ok(HEART_BEAT, body=beat(client="two", producers=("makers",)))
        found = await look(remoting.client, PRODUCERS, producerGroup="makers")
        assert [one["clientId"] for one in found["connectionSet"]] == ["one", "two"]
        everything = (await look(remoting.client, ALL_PRODUCERS))["data"]
        assert {group: [one["clientId"] for one in ones] for group, ones in everything.items()} == {
            "makers": ["one", "two"],
            "spare": ["one"],
        }
        [spare] = everything["spare"]
        assert spare["remoteIP"] == remoting.client.address
        assert before_ms <= spare["lastUpdateTimestamp"] <= wall_us() // 1_000
