"""Seeds over HTTP: what they store, and what their errors say."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mocketmq.errors import SettingError
from mocketmq.settings_sources import load_settings
from tests.support.api import Api, running_api
from tests.support.brokers import FREE_PORTS, rows

DAY_MS = 86_400_000
MINUTE_MS = 60_000


async def plant(api: Api, *messages: dict[str, Any], **more: Any) -> Any:
    """Seed messages of the topic orders."""
    made = [{"topic": "orders", "body": "x", **one} for one in messages]
    return await api.ok("POST", "/v1/seeds", {"messages": made, **more})


async def plant_file(api: Api, text: str, file_format: str = "toml") -> Any:
    return await api.ok("POST", "/v1/seeds", {"file": {"text": text, "format": file_format}})


async def refusal(api: Api, text: str, file_format: str = "toml") -> str:
    file = {"text": text, "format": file_format, "name": f"orders.{file_format}"}
    problem = await api.refused(400, "POST", "/v1/seeds", {"file": file})
    assert (await api.ok("GET", "/v1/message-states"))["messages"] == []
    return str(problem["detail"])


async def life(api: Api, message_id: str) -> list[tuple[str, int]]:
    found = await api.ok("GET", f"/v1/messages/{message_id}")
    return [(event["kind"], event["at_ms"]) for event in found["life"]]


async def now_ms(api: Api) -> int:
    return int((await api.ok("GET", "/v1/clock"))["now_ms"])


async def test_the_example_of_the_docs(api: Api) -> None:
    page = (Path(__file__).parents[3] / "docs" / "seeds.md").read_text()
    seeded = await plant_file(api, page.partition("```toml\n")[2].partition("```")[0])
    assert (len(seeded["message_ids"]), seeded["pending"]) == (3, 1)
    assert (seeded["retries"], seeded["dead_letters"]) == (1, 1)
    assert [one["body"] for one in await api.receive(group="shipping")] == ["order 8"]


async def test_a_message_of_yesterday_was_stored_and_born_then(api: Api) -> None:
    seeded = await plant(api, {"sent_at": "-1d", "message_id": "old"}, {"message_id": "new"})
    now = await now_ms(api)
    assert seeded == {"message_ids": ["old", "new"], "pending": 0, "retries": 0, "dead_letters": 0}
    assert await life(api, "old") == [("sent", now - DAY_MS)]
    taken = await api.receive()
    assert [(one["message_id"], one["store_ms"], one["born_ms"]) for one in taken] == [
        ("old", now - DAY_MS, now - DAY_MS),
        ("new", now, now),
    ]
    assert "by seed" in (await api.ok("GET", "/v1/messages/old"))["life"][0]["text"]


@pytest.mark.parametrize("delay", [{"delay": "30m"}, {"delay_level": 16}], ids=["timer", "level"])
async def test_a_delay_counts_from_the_time_of_sending(api: Api, delay: dict[str, Any]) -> None:
    seeded = await plant(api, {"sent_at": "-10m", "message_id": "waiting", **delay})
    assert seeded["pending"] == 1
    now = await now_ms(api)
    assert await life(api, "waiting") == [("parked", now - 10 * MINUTE_MS), ("due", now + 20 * MINUTE_MS)]
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "19m59s"}))["fired"] == 0
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "1s"}))["fired"] == 1
    [delivery] = (await api.ok("GET", "/v1/messages/waiting"))["deliveries"]
    assert delivery["stored_us"] == (now - 10 * MINUTE_MS) * 1_000
    assert delivery["delivered_us"] == delivery["due_us"] == (now + 20 * MINUTE_MS) * 1_000


@pytest.mark.parametrize("delay", [{"delay": "30m"}, {"delay_level": 16}, {"deliver_at": "-1410m"}])
async def test_a_delay_that_is_over_was_delivered_on_time_without_a_row_in_the_ledger(
    api: Api, delay: dict[str, Any]
) -> None:
    await plant(api, {"sent_at": "-1d", "message_id": "over", **delay})
    due = await now_ms(api) - DAY_MS + 30 * MINUTE_MS
    found = await api.ok("GET", "/v1/messages/over")
    assert (found["state"], found["deliveries"]) == ("delivered", [])
    assert await life(api, "over") == [("delivered", due)]
    assert (await api.receive())[0]["store_ms"] == due


async def test_a_due_time_is_on_the_brokers_clock_even_after_a_move(api: Api) -> None:
    await api.ok("POST", "/v1/clock/advance", {"by": "10d"})
    await plant(api, {"deliver_at": "+1h", "message_id": "later"})
    assert (await life(api, "later"))[-1] == ("due", await now_ms(api) + 60 * MINUTE_MS)
    instant = "2040-01-31T08:00:00+01:00"
    problem = await api.refused(
        400, "POST", "/v1/seeds", {"messages": [{"topic": "orders", "body": "x", "deliver_at": instant}]}
    )
    assert problem["field"] == "messages[0].start_deliver_ms"  # beyond start_deliver_window


async def test_consumed_messages_are_acknowledged_and_the_others_wait(api: Api) -> None:
    await plant(
        api,
        {"message_id": "a", "queue_id": 0, "sent_at": "-3h"},
        {"message_id": "b", "queue_id": 0, "sent_at": "-2h", "consumed_by": ["billing", "audit"]},
        {"message_id": "c", "queue_id": 0, "sent_at": "-1h"},
    )
    found = await api.ok("GET", "/v1/messages/b")
    assert found["consumption"] == "acknowledged"
    now = await now_ms(api)
    assert [event for event in await life(api, "b") if event[0] == "acknowledged"] == [
        ("acknowledged", now - 120 * MINUTE_MS)
    ] * 2
    assert (await api.ok("GET", "/v1/groups/billing"))["lag"] == 3  # RocketMQ counts from the first open one
    assert [one["message_id"] for one in await api.receive()] == ["a", "c"]
    assert [one["message_id"] for one in await api.receive(group="audit")] == ["a", "c"]
    assert [one["message_id"] for one in await api.receive(group="other")] == ["a", "b", "c"]


async def test_a_group_that_is_behind(api: Api) -> None:
    made = [{"message_id": f"m{n}", "sent_at": f"-{20 - n}m"} for n in range(20)]
    await plant(api, *made, progress=[{"group": "billing", "topic": "orders", "lag": 3}])
    group = await api.ok("GET", "/v1/groups/billing")
    assert (group["lag"], group["in_flight"]) == (3, 0)
    assert {one["message_id"] for one in await api.receive()} == {"m17", "m18", "m19"}
    assert (await api.ok("GET", "/v1/groups/billing"))["in_flight"] == 3


async def test_a_group_is_behind_in_a_queue_of_which_it_has_seen_nothing(api: Api) -> None:
    made = [{"message_id": f"m{n}", "queue_id": n // 2, "sent_at": f"-{9 - n}m"} for n in range(4)]
    await plant(api, *made, progress=[{"group": "billing", "topic": "orders", "lag": 2}])
    group = await api.ok("GET", "/v1/groups/billing")
    offsets = [(one["queue_id"], one["committed_offset"], one["lag"]) for one in group["queues"]]
    assert (group["lag"], offsets) == (2, [(0, 2, 0), (1, 0, 2)])


async def test_a_failed_message_waits_for_its_next_attempt(api: Api) -> None:
    seeded = await plant(
        api,
        {"message_id": "now", "failed": {"billing": 1}},
        {"message_id": "past", "failed": {"billing": 2}, "sent_at": "-1d"},
    )
    assert seeded["retries"] == 2
    now = await now_ms(api)
    assert [event for event in await life(api, "now") if event[0] != "sent"] == [
        ("taken", now),
        ("retried", now),
        ("due", now + 10_000),
    ]
    assert [(one["message_id"], one["reconsume_times"]) for one in await api.receive()] == [("past", 2)]
    assert (await api.ok("POST", "/v1/clock/advance", {"by": "10s"}))["fired"] == 1
    assert [(one["message_id"], one["reconsume_times"]) for one in await api.receive()] == [("now", 1)]
    assert {one["message_id"] for one in await api.receive(group="other")} == {"now", "past"}


async def test_a_dead_letter_can_be_consumed_from_its_topic(api: Api) -> None:
    seeded = await plant(api, {"message_id": "m", "body": "b", "sent_at": "-2h", "dead": {"billing": 17}})
    assert seeded["dead_letters"] == 1
    then = await now_ms(api) - 120 * MINUTE_MS
    assert await life(api, "m") == [("sent", then), ("taken", then), ("dead", then)]
    assert (await api.ok("GET", "/v1/messages/m"))["state"] == "dead"
    assert await api.receive() == []
    [letter] = await api.receive("%DLQ%billing", group="repair")
    assert (letter["body"], letter["reconsume_times"]) == ("b", 17)
    assert (await api.ok("GET", "/v1/groups/billing"))["dead_letters"] == 1


async def test_an_ordering_key_keeps_messages_in_one_queue(api: Api) -> None:
    await plant(api, *({"ordering_key": "order-7", "message_id": f"m{n}"} for n in range(9)))
    taken = await api.receive()
    assert [one["message_id"] for one in taken] == [f"m{n}" for n in range(9)]
    assert len({one["queue_id"] for one in taken}) == 1
    assert {one["properties"]["__SHARDINGKEY"] for one in taken} == {"order-7"}


async def test_all_of_a_seed_or_nothing(api: Api) -> None:
    good = {"topic": "orders", "body": "x", "message_id": "good", "delay": "1h"}
    for wrong in ({"topic": "orders", "body": ""}, {"topic": "SCHEDULE_TOPIC_XXXX", "body": "x"}):
        problem = await api.refused(400, "POST", "/v1/seeds", {"messages": [good, wrong]})
        assert problem["field"].startswith("messages[1]")
        await api.refused(404, "GET", "/v1/messages/good")
        assert (await api.ok("GET", "/v1/clock"))["pending"] == 0


async def test_missing_topics_and_groups_follow_the_settings() -> None:
    async with running_api(auto_create_topics=False, auto_create_groups=False) as api:
        message = {"topic": "orders", "body": "x", "consumed_by": ["billing"]}
        problem = await api.refused(400, "POST", "/v1/seeds", {"messages": [message]})
        assert problem["detail"].startswith("messages[0]: topic[orders] not exist")
        await api.ok("PUT", "/v1/topics/orders", {})
        problem = await api.refused(400, "POST", "/v1/seeds", {"messages": [message]})
        assert problem["detail"] == "messages[0]: subscription group not exist, billing"


async def test_an_old_seed_beside_newer_messages_is_refused(api: Api) -> None:
    await api.send()
    problem = await api.refused(
        400, "POST", "/v1/seeds", {"messages": [{"topic": "orders", "body": "x", "sent_at": "-1s"}]}
    )
    assert problem["field"] == "messages[0].sent_at"
    assert "Reset the broker first" in problem["detail"]
    assert (await plant(api, {}))["message_ids"]
    await api.ok("POST", "/v1/reset", {})
    assert (await plant(api, {"sent_at": "-1s"}))["message_ids"]


async def test_a_group_does_not_pass_earlier_messages(api: Api) -> None:
    await api.send(queue_id=0)
    message = {"topic": "orders", "body": "x", "queue_id": 0, "consumed_by": ["billing"]}
    problem = await api.refused(400, "POST", "/v1/seeds", {"messages": [message]})
    assert "has not consumed queue 0 of orders yet" in problem["detail"]


TOML = """
[[messages]]
topic = "orders"
body_json = { id = 7 }
keys = ["k7"]
properties = { region = "eu" }
sent_at = 2020-01-01T00:00:00Z
failed = { billing = 2 }

[[progress]]
group = "audit"
topic = "orders"
lag = 0
"""
CSV = """\ufefftopic,body_json,keys,properties.region,sent_at,failed,consumed_by
orders,"{""id"": 7}",k7,eu,2020-01-01T00:00:00Z,billing:2,audit
"""
LINE = {
    "topic": "orders",
    "body_json": {"id": 7},
    "keys": ["k7"],
    "properties": {"region": "eu"},
    "sent_at": "2020-01-01T00:00:00Z",
    "failed": {"billing": 2},
    "consumed_by": ["audit"],
}


@pytest.mark.parametrize(
    ("text", "file_format"), [(TOML, "toml"), (CSV, "csv"), (f"\n{json.dumps(LINE)}\n\n", "jsonl")]
)
async def test_the_three_formats_say_the_same(api: Api, text: str, file_format: str) -> None:
    [message_id] = (await plant_file(api, text, file_format))["message_ids"]
    [message] = await api.receive(group="other")
    assert (message["message_id"], message["body"], message["keys"]) == (message_id, '{"id":7}', ["k7"])
    assert (message["properties"]["region"], message["store_ms"]) == ("eu", 1_577_836_800_000)
    [retry] = await api.receive()
    assert retry["reconsume_times"] == 2
    assert await api.receive(group="audit") == []


@pytest.mark.parametrize(
    ("text", "file_format", "detail"),
    [
        (
            '[[messages]]\ntopic = "orders"\nbody = "x"\ndelay = "3 weeks"',
            "toml",
            "orders.toml, line 4, column 9: delay is '3 weeks'; allowed: a duration such as 200ms",
        ),
        (
            '# one\n[[messages]]\ntopic = "orders"',
            "toml",
            "orders.toml, line 2, column 1: the body is missing; allowed: exactly one of body, body_base64",
        ),
        (
            '[[messages]]\nbody = "x"',
            "toml",
            "orders.toml, line 1, column 1: topic is missing; allowed: 1 to",
        ),
        (
            "[[message]]",
            "toml",
            "orders.toml, line 1, column 1: message is [{}]; allowed: only messages, prog",
        ),
        ("x = ", "toml", "orders.toml: the file is not TOML: Invalid value (at end of document)"),
        (
            '{"topic": "orders", "body": "x"}\n{"topic": "orders", "body": "x", "sent_at": "+1s"}',
            "jsonl",
            "orders.jsonl, line 2, column 45: sent_at is '+1s'; allowed: now, or a time before",
        ),
        ('{"topic": }', "jsonl", "orders.jsonl, line 1, column 11: the line is not JSON: Expecting value"),
        (
            "[" * 9_000,
            "jsonl",
            "orders.jsonl, line 1, column 1: the line is not JSON: it is nested too deeply",
        ),
        (
            "topic,body,queue_id\norders,x,0\norders,x,many\n",
            "csv",
            "orders.csv, line 3, column 10: queue_id is 'many'; allowed: a whole number from 0 to 8191",
        ),
        ("topic,body\norders\n", "csv", "orders.csv, line 2, column 1: the row has 1 cells; allowed: 2"),
        ('topic,body\norders,x"y\n', "csv", 'orders.csv, line 2, column 8: the cell has a " out of place'),
        (
            'topic,body,failed\norders,"a\nb",billing:99\n',
            "csv",
            "orders.csv, line 3, column 4: failed.billing is 99; allowed: 1 to 16, the max_retries of b",
        ),
    ],
)
async def test_errors_name_the_line_and_the_column(
    api: Api, text: str, file_format: str, detail: str
) -> None:
    assert (await refusal(api, text, file_format)).startswith(detail)


async def test_the_number_of_messages_is_bounded(api: Api) -> None:
    line = '{"topic":"orders","body":"x"}\n'
    assert "a list of up to 20000 entries" in await refusal(api, line * 20_001, "jsonl")
    assert len((await plant_file(api, line * 2_000, "jsonl"))["message_ids"]) == 2_000


async def test_a_seed_is_one_transaction(api: Api) -> None:
    writer = api.emulator.broker.store.writer
    await plant(api, {"consumed_by": ["billing"], "dead": {"audit": 1}, "failed": {"other": 1}})
    await api.ok("POST", "/v1/reset", {})
    before = writer.commits
    text = "\n".join(
        json.dumps({"topic": "orders", "body": str(n), "sent_at": "-1d", "consumed_by": ["billing"]})
        for n in range(3_000)
    )
    await plant_file(api, text, "jsonl")
    assert writer.commits - before == 1


# Seeds in the settings file


def config(path: Path, text: str) -> dict[str, Any]:
    """Settings from a file, as changes for ``running_api``."""
    file = path / "mocketmq.toml"
    file.write_text(text)
    loaded = load_settings({}, {}, file)
    return {"messages": loaded.messages, "progress": loaded.progress, "file": loaded.file, **FREE_PORTS}


async def test_declared_seeds_are_planted_once(tmp_path: Path) -> None:
    changed = config(tmp_path, TOML)
    async with running_api(data=str(tmp_path / "data"), **changed) as api:
        assert [one["body"] for one in await api.receive(group="other")] == ['{"id":7}']
        await api.ok("POST", "/v1/reset", {})
    async with running_api(data=str(tmp_path / "data"), **changed) as api:
        assert await api.receive(group="new") == []
    assert rows(tmp_path / "data", "SELECT value FROM counters WHERE name = 'declared_seeds'")


async def test_declared_seeds_are_not_added_to_a_store_with_messages(tmp_path: Path) -> None:
    async with running_api(data=str(tmp_path / "data")) as api:
        await api.send(body="first")
    async with running_api(data=str(tmp_path / "data"), **config(tmp_path, TOML)) as api:
        assert [one["body"] for one in await api.receive()] == ["first"]


async def test_a_wrong_declared_seed_stops_the_start_with_its_place(tmp_path: Path) -> None:
    changed = config(tmp_path, f'{TOML}\n[[messages]]\ntopic = "orders"\nbody = "x"\ndelay = 3\n')
    with pytest.raises(SettingError, match=r"setting messages\[1\]\.delay is 3; .*toml, line 18, column 9\)"):
        async with running_api(**changed):
            pass


# What was seeded is what is read back

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12)
NAMES = st.text("abcxyz", min_size=1, max_size=5)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"topic": st.just("orders"), "sent_at": st.integers(1, 9_999).map(lambda s: f"-{s}s")},
        optional={
            "tag": TEXTS,
            "properties": st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3),
            "keys": st.lists(NAMES, min_size=1, max_size=3),
            "queue_id": st.integers(0, 3),
            "flag": st.integers(-9, 9),
            "consumed_by": st.just(["billing"]),
        },
    ).flatmap(lambda one: st.tuples(st.just(one), TEXTS).map(lambda pair: {**pair[0], "body": pair[1]})),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=MESSAGES, file_format=st.sampled_from(["jsonl", "toml", "csv"]))
async def test_what_was_seeded_is_read_back(api: Api, messages: list[Any], file_format: str) -> None:
    await api.ok("POST", "/v1/reset", {"forget": True})
    ids = (await plant_file(api, written(messages, file_format), file_format))["message_ids"]
    now = await now_ms(api)
    found = {one["message_id"]: one for one in await api.receive(group="reader")}
    assert set(found) == set(ids)
    stored = []
    for message_id, message in zip(ids, messages, strict=True):
        one = found[message_id]
        own = {"TAGS", "KEYS", "UNIQ_KEY"}
        assert one["body"] == message["body"]
        assert one["tag"] == message.get("tag")
        assert one["keys"] == message.get("keys", [])
        assert one["flag"] == message.get("flag", 0)
        assert {n: v for n, v in one["properties"].items() if n not in own} == message.get("properties", {})
        assert one["queue_id"] == message.get("queue_id", one["queue_id"])
        assert one["store_ms"] == now - int(message["sent_at"][1:-1]) * 1_000
        stored.append((one["queue_id"], one["queue_offset"], one["store_ms"]))
    assert [each[::2] for each in sorted(stored)] == sorted(each[::2] for each in stored)
    left = {one["message_id"] for one in await api.receive()}
    assert left == {i for i, one in zip(ids, messages, strict=True) if "consumed_by" not in one}


def written(messages: list[Any], file_format: str) -> str:
    """Write the messages in a format."""
    if file_format == "jsonl":
        return "\n".join(json.dumps(one, ensure_ascii=False) for one in messages)
    if file_format == "toml":
        lines = []
        for one in messages:
            lines.append("[[messages]]")
            for name, value in one.items():
                if isinstance(value, dict):
                    inner = ", ".join(f"{n} = {json.dumps(v, ensure_ascii=False)}" for n, v in value.items())
                    lines.append(f"{name} = {{{inner}}}")
                else:
                    lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
        return "\n".join(lines)
    flat = [
        {
            **{n: v for n, v in one.items() if n != "properties"},
            **{f"properties.{n}": v for n, v in one.get("properties", {}).items()},
        }
        for one in messages
    ]
    names = list(dict.fromkeys(name for one in flat for name in one))
    table = [names, *([_cell(one.get(name, "")) for name in names] for one in flat)]
    return "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in table)


def _cell(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)
