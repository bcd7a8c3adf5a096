"""The console's forms and buttons, used as a person would, and their effects in the broker."""

import asyncio
import re
import sys
from datetime import UTC, datetime
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession

from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY, UNIQ_KEY
from tests.support.api import Api
from tests.support.browser import console_page, overflow, violations
from tests.support.chromium import needs_chromium
from tests.support.grpc import running_grpc
from tests.support.held_report import HeldReport
from tests.support.patience import HANGING_S, PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.slow, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)


def local(instant_ms: int) -> str:
    """Format a time as an input field takes it; the pages' time zone is UTC."""
    return datetime.fromtimestamp(instant_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


async def whole_second_ms(api: Api, later_s: int) -> int:
    """Return an instant in some seconds by the broker's clock, as milliseconds of a whole second."""
    now_ms: int = (await api.ok("GET", "/v1/clock"))["now_ms"]
    return (now_ms // 1_000 + later_s) * 1_000


async def test_clock_is_moved_to_a_time(browser: "Browser", api: Api) -> None:
    at_ms = await whole_second_ms(api, 3_600)
    async with console_page(browser, api.emulator.url) as page:
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()
        await page.keyboard.press("t")
        await page.get_by_label("Move to", exact=True).fill(local(at_ms))
        await page.keyboard.press("Enter")
        await expect(page.locator(".notice")).to_contain_text("nothing was due")
        await expect(page.get_by_role("button", name="Move to a time")).to_be_focused()
    assert (await api.ok("GET", "/v1/clock"))["now_ms"] == at_ms


async def test_a_lane_is_delivered_and_cancelled(browser: "Browser", api: Api) -> None:
    for body in ("one", "two", "three"):
        await api.send(body=body, delay_level=4)
    async with console_page(browser, api.emulator.url, "levels/4") as page:
        await page.get_by_role("button", name="Deliver now").first.click()
        await expect(page.get_by_role("button", name="Deliver now")).to_have_count(2)
        assert [one["body"] for one in await api.receive()] == ["one"]
        await expect(page.get_by_text("2 messages waiting.")).to_be_visible()
        await page.get_by_role("button", name="Deliver all now").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Waiting here now: 2 messages")
        await dialog.get_by_role("button", name="Deliver all now").click()
        await expect(page.get_by_text("Delivered 2 messages.")).to_be_visible()
        assert sorted(one["body"] for one in await api.receive()) == ["three", "two"]

        for _ in range(2):
            await api.send(delay_ms=90_000)
        await page.goto(f"{api.emulator.url}/#/levels/time")
        await expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(2)
        await page.get_by_role("button", name="Cancel all").click()
        await dialog.get_by_role("button", name="Keep everything as it is").click()
        await expect(page.locator("dialog")).to_have_count(0)
        await page.get_by_role("button", name="Cancel all").click()
        await dialog.get_by_role("button", name="Cancel all").click()
        await expect(page.get_by_text("Cancelled 2 messages.")).to_be_visible()
        await expect(page.get_by_text("Nothing is waiting here")).to_be_visible()
    assert (await api.ok("GET", "/v1/delayed"))["messages"] == []


async def test_messages_are_sent_after_some_time_and_at_a_time(browser: "Browser", api: Api) -> None:
    at_ms = await whole_second_ms(api, 7_200)
    async with console_page(browser, api.emulator.url, "send") as page:
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()
        await page.get_by_label("Topic").fill("orders")
        await page.get_by_label("Body", exact=True).fill("order 7")
        await page.get_by_label("Tag").fill("new")
        await page.get_by_label("Keys").fill("7 seven")
        await page.get_by_role("button", name="Add a property").click()
        await page.get_by_label("Name of the property").fill("colour")
        await page.get_by_label("Value of the property").fill("red")
        await page.get_by_role("combobox", name="Deliver").select_option("after some time")
        await page.get_by_label("Seconds").fill("90")
        await page.get_by_label("How many times").fill("501")  # more than the page sends at once
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_text("Sent 501 messages to orders.")).to_be_visible()
        await page.get_by_label("How many times").fill("1")
        await page.get_by_role("combobox", name="Deliver").select_option("at a time")
        await page.get_by_role("textbox", name="Time by the broker's clock").fill(local(at_ms))
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_text("Sent to orders.")).to_be_visible()
    moved = await api.ok("POST", "/v1/clock/advance", {"by": "90s"})
    assert moved["fired"] == 501
    [waiting] = (await api.ok("GET", "/v1/delayed"))["messages"]
    assert (waiting["due_ms"], waiting["body"], waiting["tag"]) == (at_ms, "order 7", "new")
    assert (waiting["keys"], waiting["properties"]["colour"]) == (["7", "seven"], "red")


async def test_copied_message_is_sent_again(browser: "Browser", api: Api) -> None:
    body = 'it\'s "7" for $HOME, naïve \\ ☕'
    given = {"body": body, "delay_level": 3, "tag": "new", "keys": ["a'b"], "properties": {"colour": "réd"}}
    sent = await api.ok("POST", "/v1/topics/orders/messages", given)
    async with console_page(browser, api.emulator.url, f"messages/{sent['message_id']}") as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for name, command in (("curl", ("bash", "-c")), ("Python", (sys.executable, "-c"))):
            await page.get_by_role("button", name=f"Copy as {name}").click()
            await expect(page.get_by_text(f"{name} copied.")).to_be_visible()
            copy = await page.evaluate("navigator.clipboard.readText()")
            process = await asyncio.create_subprocess_exec(*command, copy, stdout=DEVNULL, stderr=PIPE)
            _, errors = await process.communicate()
            assert process.returncode == 0, (copy, errors)
        await page.get_by_role("button", name="Copy as Java").click()
        await expect(page.get_by_text("Java copied.")).to_be_visible()
        java = await page.evaluate("navigator.clipboard.readText()")
    assert 'new Message("orders", "new", "a\'b", ' in java
    assert "message.setDelayTimeLevel(3);" in java
    pending = (await api.ok("GET", "/v1/delayed"))["messages"]
    assert len({one["message_id"] for one in pending}) == 3
    for one in pending:
        assert (one["body"], one["level"], one["tag"], one["keys"]) == (body, 3, "new", ["a'b"])
        assert one["properties"]["colour"] == "réd"


async def test_a_priority_is_shown_and_sent_again(browser: "Browser", api: Api) -> None:
    await api.ok("PUT", "/v1/topics/orders", {"type": "priority"})
    sent = await api.send(priority=2)
    async with console_page(browser, api.emulator.url, f"messages/{sent['message_id']}") as page:
        await expect(page.get_by_text("Priority", exact=True)).to_be_visible()
        await page.get_by_role("link", name="Send again").click()
        await expect(page.get_by_label("Priority")).to_have_value("2")
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_text("Sent to orders.")).to_be_visible()
    assert [one["priority"] for one in await api.receive()] == [2, 2]


async def test_the_trace_of_a_message_is_among_its_facts(browser: "Browser", api: Api) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    sent = await api.send(properties={"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"})
    async with console_page(browser, api.emulator.url, f"messages/{sent['message_id']}") as page:
        await expect(page.get_by_text("Trace", exact=True)).to_be_visible()
        await expect(page.get_by_text(trace_id, exact=True)).to_be_visible()


async def test_a_messages_life_lists_its_faults(browser: "Browser", api: Api) -> None:
    await api.ok("POST", "/v1/faults", {"do": "late", "by": "1ms", "operation": "send", "name": "slow"})
    await api.ok("POST", "/v1/faults", {"do": "deliver-late", "by": "20s", "level": 3, "name": "jam"})
    sent = await api.send(delay_level=3)
    await api.ok("POST", "/v1/clock/advance", {"by": "1m"})
    async with console_page(browser, api.emulator.url, f"messages/{sent['message_id']}") as page:
        life = page.get_by_role("list", name="Life of the message")
        await expect(life).to_contain_text("Fault slow: ")
        await expect(life).to_contain_text("Delayed by the fault jam")
        await expect(life).to_contain_text("20 s late")


async def test_open_life_is_updated_live(browser: "Browser", api: Api) -> None:
    sent = await api.send(delay_level=3)
    async with console_page(browser, api.emulator.url, f"messages/{sent['message_id']}") as page:
        life = page.get_by_role("list", name="Life of the message")
        await expect(life).to_contain_text("Still waiting.")
        await api.ok("POST", "/v1/clock/advance", {"by": "10s"})
        await expect(life).to_contain_text("Delivered to orders")
        [taken] = await api.receive()
        await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [taken["receipt"]]})
        await expect(life).to_contain_text("Acknowledged by billing")


async def test_the_selection_stays_while_the_group_changes(browser: "Browser", api: Api) -> None:
    await api.send(body="first")
    await api.receive(max=1)
    async with console_page(browser, api.emulator.url, "groups/billing") as page:
        lag, where = page.locator(".figure").first, page.get_by_role("combobox", name="to", exact=True)
        await expect(lag).to_have_text("1lag")
        await where.select_option("the end")
        await api.send(body="second")
        await expect(lag).to_have_text("2lag")
        await expect(where).to_have_value("end")


async def test_clients_are_listed_by_door_and_version(browser: "Browser") -> None:
    async with running_grpc() as (emulator, client), ClientSession() as session, client.telemetry() as said:
        api = Api(emulator, session)
        await api.send()
        subscription = {"topic": {"name": "orders"}, "expression": {"type": 1, "expression": "new"}}
        await said.settings(
            client_type=3, subscription={"group": {"name": "billing"}, "subscriptions": [subscription]}
        )
        await client.receive()
        async with console_page(browser, api.emulator.url, "clients") as page:
            row = page.get_by_role("row", name=re.compile("host@1@0@abc"))
            await expect(row).to_contain_text("grpc")
            await expect(row).to_contain_text("orders: new")
            await row.get_by_role("link", name="billing").click()
            await expect(page.get_by_text("Members: host@1@0@abc.")).to_be_visible()


async def _submit(page: "Page", name: str, notice: str) -> None:
    """Submit the form of a view for a topic or group, and wait for the notice."""
    field = page.get_by_label("Name", exact=True)
    await field.fill(name)
    await field.press("Enter")
    await expect(page.get_by_text(notice)).to_be_visible()


async def test_a_group_keeps_its_retries_unless_the_form_names_them(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "groups") as page:
        await page.get_by_label("Retries allowed").fill("5")
        await _submit(page, "billing", "The group billing allows 5 retries.")
        await api.ok("PUT", "/v1/groups/billing", {"max_retries": 3})  # by another client
        await _submit(page, "billing", "The group billing allows 3 retries.")
        await _submit(page, "audit", "The group audit allows 16 retries.")
    assert (await api.ok("GET", "/v1/groups/billing"))["max_retries"] == 3


async def test_a_topic_keeps_what_the_form_leaves_out(browser: "Browser", api: Api) -> None:
    await api.ok("PUT", "/v1/topics/orders", {"read_queues": 6, "write_queues": 6, "perm": "r"})
    async with console_page(browser, api.emulator.url, "topics") as page:
        await _submit(page, "orders", "The topic orders has 6 queues.")
        await page.get_by_label("Queues", exact=True).fill("8")
        await _submit(page, "orders", "The topic orders has 8 queues.")
        await _submit(page, "new", "The topic new has 4 queues.")
    changed, new = [await api.ok("GET", f"/v1/topics/{topic}") for topic in ("orders", "new")]
    assert (changed["write_queues"], changed["perm"], new["perm"]) == (8, "r", "rw")


async def test_a_group_is_reset_to_the_end_and_to_a_time(browser: "Browser", api: Api) -> None:
    await api.send(body="first")
    await api.ok("POST", "/v1/clock/advance", {"by": "1m"})
    between_ms = await whole_second_ms(api, 0)
    await api.send(body="second")
    await api.receive(max=1)
    async with console_page(browser, api.emulator.url, "groups/billing") as page:
        await page.get_by_role("combobox", name="to", exact=True).select_option("the end")
        await page.get_by_role("button", name="Reset offsets").click()
        await expect(page.get_by_text("billing now reads orders from the end: lag 0.")).to_be_visible()
        await page.get_by_role("combobox", name="to", exact=True).select_option("a time")
        between = datetime.fromtimestamp(between_ms / 1_000, UTC)
        from_ = f"{between:%b} {between.day}, {between:%Y}, {between:%H:%M:%S}"
        await page.get_by_role("textbox", name="Time", exact=True).fill(local(between_ms))
        await page.get_by_role("button", name="Reset offsets").click()
        await expect(page.get_by_text(f"billing now reads orders from {from_}: lag 1.")).to_be_visible()
    assert [one["body"] for one in await api.receive()] == ["second"]


@pytest.mark.slow
async def test_the_whole_report_is_made_and_opens_in_a_sandbox(browser: "Browser", api: Api) -> None:
    evil = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>"
    message = Message("orders", b"hello", {UNIQ_KEY: evil, DELAY: "1"})  # from a hostile remoting client
    await api.emulator.broker.sender.send(message)
    await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    async with console_page(browser, api.emulator.url, "lateness") as page:
        async with page.context.expect_page(timeout=HANGING_S * 1_000) as opened:
            await page.get_by_role("button", name="Make the report").click()
        report = await opened.value
        await expect(report.get_by_role("heading", level=1)).to_contain_text("a broker in memory")
        assert "img src=x" in await report.content()
        assert await report.title() != "ran"
        assert await report.evaluate("origin") == "null"
        blocked = "fetch('/v1/info').then(() => 'answered', () => 'blocked')"
        assert await report.evaluate(blocked) == "blocked"
        link = page.get_by_role("link", name=re.compile("Open the report of"))
        await expect(link).to_have_attribute("href", report.url.removeprefix(api.emulator.url))


async def test_each_step_of_a_report_is_shown_while_it_is_made(
    browser: "Browser", api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldReport(monkeypatch)
    async with console_page(browser, api.emulator.url, "lateness") as page:
        status = page.locator(".made")
        await expect(status).to_have_text("")
        async with page.context.expect_page(timeout=HANGING_S * 1_000) as opened:
            await page.get_by_role("button", name="Make the report").click()
            await expect(status).to_have_text("Step 1 of 5: starting…")
            await held.began.wait()
            held.tell("measuring")
            await expect(status).to_have_text("Step 3 of 5: measuring…")
            held.tell("writing")
            await expect(status).to_have_text("Step 5 of 5: writing…")
            held.go_on.set()
        await expect((await opened.value).get_by_role("heading")).to_have_text("The report")
        await expect(status).to_contain_text("Open the report of")


async def test_brokers_of_a_cluster_crash_and_start_by_buttons(browser: "Browser") -> None:
    async with running_grpc(brokers=2) as (emulator, _), ClientSession() as session:
        brokers = emulator.broker.registry.brokers
        async with console_page(browser, Api(emulator, session).emulator.url, "faults") as page:
            row = page.get_by_role("row", name=re.compile("broker-b"))
            await expect(row).to_contain_text("running")
            await row.get_by_role("button", name="Crash: broker-b").click()
            await expect(row).to_contain_text("crashed")
            assert brokers[1].state == "crashed"
            await row.get_by_role("button", name="Start: broker-b").click()
            await expect(row).to_contain_text("running")
            await row.get_by_role("button", name="Cut off from clients: broker-b").click()
            await expect(row).to_contain_text("cut off from clients")
            await row.get_by_role("button", name="Make read-only: broker-b").click()
            await expect(row).to_contain_text("cut off from clients · read-only")
            await row.get_by_role("button", name="Reconnect: broker-b").click()
            await expect(row).not_to_contain_text("cut off from clients")
            assert (brokers[1].is_reachable, brokers[1].condition.is_read_only) == (True, True)
            await page.get_by_role("combobox", name="Broker", exact=True).select_option("broker-b")
            await page.get_by_role("button", name="Add the rule").click()
            await expect(page.get_by_text("broker broker-b")).to_be_visible()
        [fault] = emulator.broker.faults
        assert fault.rule.broker == "broker-b"


async def test_the_slave_of_a_single_broker_is_promoted_by_a_button(browser: "Browser") -> None:
    async with running_grpc(slaves=1) as (emulator, _), ClientSession() as session:
        [broker] = emulator.broker.registry.brokers
        async with console_page(browser, Api(emulator, session).emulator.url, "faults") as page:
            row = page.get_by_role("row", name=re.compile("broker-a"))
            await row.get_by_role("button", name="Crash: broker-a").click()
            await row.get_by_role("button", name="Promote slave: broker-a").click()
            await expect(row).to_contain_text("down · has changed places with the broker")
            assert (broker.state, broker.condition.is_promoted) == ("running", True)
            await row.get_by_role("button", name="Start: broker-a").click()
            await expect(row).to_contain_text("running · has changed places with the broker")
            assert broker.has_running_slave


@pytest.mark.parametrize("width", [390, 1_280])
async def test_brokers_of_a_cluster_fit_on_each_width(browser: "Browser", width: int) -> None:
    async with running_grpc(brokers=2, slaves=1) as (emulator, _), ClientSession() as session:
        url = Api(emulator, session).emulator.url
        async with console_page(browser, url, "faults", width=width) as page:
            await page.get_by_role("button", name="Crash: broker-b").click()
            await expect(page.get_by_label("A crash loses the last")).to_be_visible()
            assert await violations(page) == []
            assert await overflow(page) == 0


async def test_a_single_broker_has_no_buttons(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "faults") as page:
        await expect(page.get_by_role("heading", name="Rules")).to_be_visible()
        await expect(page.get_by_role("heading", name="Brokers")).to_be_hidden()
        await expect(page.get_by_role("combobox", name="Broker", exact=True)).to_have_count(0)
