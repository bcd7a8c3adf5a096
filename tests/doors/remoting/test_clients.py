"""Connected clients, as the JSON API, the Python client and the command line show them."""

import asyncio
import json
import re
from typing import Any

from mocketmq import Client
from mocketmq.cli import commands
from tests.doors.remoting.consuming import (
    HEART_BEAT,
    beat,
    commit,
    committed,
    consumer,
    join,
    subscription,
)
from tests.support.brokers import GROUP, TOPIC, send
from tests.support.command_line import runner
from tests.support.remoting import Remoting, running_remoting


async def listed(remoting: Remoting) -> list[Any]:
    """Return the API's answer."""
    async with Client(remoting.emulator.url) as client:
        return await client.clients()


async def shown(remoting: Remoting, *args: str) -> str:
    """Return the command's output."""
    alone = runner(MOCKETMQ_URL=remoting.emulator.url)
    result = await asyncio.to_thread(alone.invoke, commands, ["clients", *args])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


async def test_empty_list_of_clients() -> None:
    async with running_remoting() as remoting:
        assert await listed(remoting) == []
        assert await shown(remoting) == "no clients\n"
        assert json.loads(await shown(remoting, "--json")) == {"clients": []}


async def test_a_client_is_shown_with_its_groups_and_their_lag() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        for n in range(5):
            await send(remoting.broker, queue=n % 2)
        body = beat(
            consumer(subscription(expression="A || B"), subscription(f"%RETRY%{GROUP}")),
            consumer(subscription("news"), group="announcers", messageModel="BROADCASTING"),
            client="10.0.0.7@42#1",
            producers=("makers", "CLIENT_INNER_PRODUCER"),
        )
        await client.ok(HEART_BEAT, body=body, language="GO", version=317)
        for queue_id in range(2):
            assert await committed(client, queue_id) == 0
        await commit(client, 2)
        retry = {"topic": f"%RETRY%{GROUP}", "expression": "*", "expression_type": "TAG"}
        usual = {"consume_type": "CONSUME_PASSIVELY", "consume_from_where": "CONSUME_FROM_LAST_OFFSET"}
        assert await listed(remoting) == [
            {
                "client_id": "10.0.0.7@42#1",
                "address": client.address,
                "door": "remoting",
                "language": "GO",
                "version": "V4_5_2",
                "producer_groups": ["CLIENT_INNER_PRODUCER", "makers"],
                "properties": {},
                "consumer_groups": [
                    {
                        "group": "announcers",
                        "message_model": "BROADCASTING",
                        "lag": None,
                        "subscriptions": [{"topic": "news", "expression": "*", "expression_type": "TAG"}],
                        **usual,
                    },
                    {
                        "group": GROUP,
                        "message_model": "CLUSTERING",
                        "lag": 3,
                        "subscriptions": [
                            {"topic": TOPIC, "expression": "A || B", "expression_type": "TAG"},
                            retry,
                        ],
                        **usual,
                    },
                ],
            }
        ]
        lines = (await shown(remoting)).splitlines()
        who = rf"10\.0\.0\.7@42#1 +{re.escape(client.address)} +remoting +GO +V4_5_2 +"
        for line, text in zip(
            lines[2:],
            (
                r"CLIENT_INNER_PRODUCER +producer +– +–",
                r"makers +producer +– +–",
                r"announcers +push, broadcast +news:\* +–",
                rf"{GROUP} +push +{TOPIC}:A \|\| B +3",  # the list omits its retry topic
            ),
            strict=True,
        ):
            assert re.fullmatch(who + text + " *", line), line


async def test_departed_client_is_not_shown() -> None:
    async with running_remoting() as remoting:
        await join(remoting.client)
        async with remoting.another() as two:
            await two.ok(HEART_BEAT, body=beat(client="bare"))
            await two.ok(HEART_BEAT, body=beat(consumer(consumeType="CONSUME_ACTIVELY"), client="two"))
            await remoting.client.push()
            assert [each["client_id"] for each in await listed(remoting)] == ["one", "two"]
            assert re.search(rf"^two .* {GROUP} +pull +", await shown(remoting), re.MULTILINE)
        await remoting.client.push()
        assert [each["client_id"] for each in await listed(remoting)] == ["one"]


async def test_client_without_groups_is_shown() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat(client="bare"), version=2_147_481_762)
        [line] = (await shown(remoting)).splitlines()[2:]
        assert re.fullmatch(
            rf"bare +{remoting.client.address} +remoting +JAVA +2147481762 +– +– +– +– *", line
        )


async def test_text_of_a_client_is_escaped() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat(consumer(subscription("\x1b[2J")), client="\x07bell"))
        text = await shown(remoting)
        assert r"\x07bell" in text
        assert r"\x1b[2J:*" in text
