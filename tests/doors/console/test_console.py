"""Uses of the console: see and move the clock, find messages, read their lives, send and cancel."""

import asyncio
import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api, running_api
from tests.support.browser import console_page, overflow, unsaid, violations
from tests.support.chromium import needs_chromium
from tests.support.network import quiet_port
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, HttpCredentials, Route

expect = pytest.importorskip("playwright.async_api").expect

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="package")]

expect.set_options(timeout=PATIENCE_S * 1_000)

TOKEN = "s3cret"  # noqa: S105 - guards nothing


async def test_a_clock_move_delivers_messages_and_is_recorded(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url) as page:
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()
        sent = await api.send(body="order 7", delay_level=5, keys=["7"])
        lane = page.get_by_role("link", name="Level 5 1m 1 message waiting")
        await expect(lane).to_contain_text("in 1 m")
        await expect(page.locator(".due")).to_contain_text("level 5 · orders 'order 7'")
        await page.get_by_role("button", name="+30 m: move the clock").click()
        notice = page.locator(".notice")
        await expect(notice).to_contain_text("Moved by 30 m: 1 message delivered.")
        await notice.get_by_role("link").click()
        await expect(page.get_by_text("The clock move delivered 1 message")).to_be_visible()
        await page.get_by_role("main").get_by_role("link", name="'order 7'").click()
        await expect(page).to_have_url(re.compile(sent["message_id"]))
        life = page.get_by_role("list", name="Life of the message")
        await expect(life).to_contain_text("Delivered to orders")
        await expect(life).to_contain_text("on time")


async def test_a_message_is_found_by_key_with_its_history(browser: "Browser", api: Api) -> None:
    await api.send(body='{"order": {"id": 7}}', keys=["order-7"], tag="new", properties={"colour": "red"})
    await api.send(body="other", keys=["order-77"])
    [taken] = [one for one in await api.receive() if one["keys"] == ["order-7"]]
    await api.ok("POST", "/v1/groups/billing/ack", {"receipts": [taken["receipt"]]})
    async with console_page(browser, api.emulator.url, "messages") as page:
        await page.get_by_label("Key", exact=True).fill("order-7")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_text("1 message with key “order-7”, newest first.")).to_be_visible()
        await page.locator("tbody a.clip").click()
        life = page.get_by_role("list", name="Life of the message")
        for stage in ("Sent to orders by http", "Taken by billing", "Acknowledged by billing"):
            await expect(life).to_contain_text(stage)
        await expect(page.locator(".facts").last).to_contain_text("colour")
        await expect(page.get_by_label("Body as JSON")).to_contain_text("id: 7")
        await page.get_by_role("button", name="Hex").click()
        await expect(page.get_by_label("Body as bytes")).to_contain_text("7b 22 6f 72")


async def test_a_message_is_cancelled_and_sent_again_by_keyboard_alone(browser: "Browser", api: Api) -> None:
    sent = await api.send(body="later", delay_level=3, tag="slow")
    async with console_page(browser, api.emulator.url, "levels/3") as page:
        await page.get_by_role("button", name="Cancel", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Nothing is waiting here")).to_be_visible()
        await page.get_by_role("link", name="Show it").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Cancelled", exact=True)).to_be_visible()
        await page.get_by_role("link", name="Send again").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Body", exact=True)).to_have_value("later")
        await expect(page.get_by_role("combobox", name="Delay level", exact=True)).to_have_value("3")
        await page.get_by_role("button", name="Send", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Sent to orders.")).to_be_visible()
        await page.keyboard.press("n")  # this key moves the clock to the next due message
        await expect(page.locator(".notice").last).to_contain_text("Moved by 10 s: 1 message delivered.")
    [again] = await api.receive()
    assert (again["body"], again["tag"]) == ("later", "slow")
    assert again["message_id"] != sent["message_id"]


async def test_contents_of_messages_are_shown_and_never_executed(browser: "Browser", api: Api) -> None:
    evil = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>\u202e\u0007'
    sent = await api.send(body=evil, tag="<b>tag</b>", keys=["<i>key</i>"], properties={"<u>p</u>": evil})
    raw = base64.b64encode(bytes(range(256))).decode()
    other = await api.ok("POST", "/v1/topics/orders/messages", {"body_base64": raw})
    await api.send(body="x" * (4 << 20), message_id="large")
    async with console_page(browser, api.emulator.url, "messages") as page:
        await expect(page.locator("tbody tr")).to_have_count(3)
        await page.goto(f"{api.emulator.url}/#/messages/{sent['message_id']}")
        text = page.get_by_label("Body as text")
        await expect(text).to_contain_text("<script>window.ran=1</script>⟨U+202E⟩␇")
        await page.goto(f"{api.emulator.url}/#/messages/{other['message_id']}")
        await expect(page.get_by_label("Body as bytes")).to_contain_text("000000f0  f0 f1")
        await page.goto(f"{api.emulator.url}/#/messages/large")
        await expect(page.get_by_text("4.00 MiB, UTF-8")).to_be_visible()
        await page.get_by_role("button", name="Show more").click()
        assert await page.evaluate("window.ran") is None
        assert await page.locator("main img, main script").count() == 0


@pytest.mark.slow
async def test_console_asks_for_the_token_once(browser: "Browser") -> None:
    async with running_api(token=TOKEN) as api, console_page(browser, api.emulator.url) as page:
        await page.get_by_role("textbox", name="Token").fill("wrong")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The token is wrong.")).to_be_visible()
        await page.get_by_role("textbox", name="Token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()


@pytest.mark.slow
async def test_a_browser_asks_for_a_user(
    browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "users.yml"
    file.write_text("users: [{username: root, password: secret, userType: Super}]")
    monkeypatch.setattr("mocketmq.http_api.access.is_loopback", lambda _: False)
    monkeypatch.delenv("container", raising=False)
    user: HttpCredentials = {"username": "root", "password": "secret"}
    async with (
        running_api(acl=str(file)) as api,
        console_page(browser, api.emulator.url, user=user) as page,
    ):
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()
        await page.goto(f"{api.emulator.url}/docs")
        await expect(page.get_by_text("Send a message, delayed or not").first).to_be_visible()
        assert await page.get_by_label("token").count() == 0


async def test_losing_and_finding_the_broker_is_reported(browser: "Browser") -> None:
    port = quiet_port()
    async with running_api(http_port=port) as api, console_page(browser, api.emulator.url) as page:
        await expect(page.get_by_text("nothing is waiting")).to_be_visible()
        await api.emulator.http.close()
        api.emulator.broker.live.close()
        await expect(page.get_by_role("alert")).to_contain_text("The broker does not answer.")
        async with running_api(http_port=port) as again:
            await expect(page.get_by_role("alert")).to_be_hidden()
            await again.send(delay_level=1)
            await expect(page.get_by_role("link", name="Level 1 1s 1 message waiting")).to_be_visible()


async def test_group_is_reset_and_its_dead_letter_resent(browser: "Browser", api: Api) -> None:
    await api.send(body="first")
    await api.send(body="second")
    for one in await api.receive():
        await api.ok(
            "POST", "/v1/groups/billing/give-back", {"receipts": [one["receipt"]], "delay_level": -1}
        )
    async with console_page(browser, api.emulator.url, "groups") as page:
        await page.get_by_role("link", name="billing").click()
        await expect(page.locator(".figure").first).to_have_text("0lag")
        await expect(page.locator(".figure").last).to_have_text("2dead letters")
        await page.get_by_role("button", name="Reset offsets").click()
        await expect(page.get_by_text("billing now reads orders from the start: lag 2.")).to_be_visible()
        await expect(page.locator(".figure").first).to_have_text("2lag")
        await page.get_by_role("link", name="'second'").click()
        await expect(page.get_by_text("Moved to the dead letters of billing")).to_be_visible()
        await page.get_by_role("link", name="Send again").click()
        await expect(page.get_by_label("Topic")).to_have_value("orders")
        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_text("Sent to orders.")).to_be_visible()
    assert sorted(one["body"] for one in await api.receive()) == ["first", "second", "second"]


@pytest.mark.slow
async def test_topics_and_groups_are_made_and_deleted(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "topics") as page:
        await page.get_by_label("Name", exact=True).fill("orders")
        await page.get_by_label("Queues").fill("8")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The topic orders has 8 queues.")).to_be_visible()
        assert (await api.ok("GET", "/v1/topics/orders"))["write_queues"] == 8
        await page.get_by_role("button", name="Delete orders").click()
        await page.get_by_role("button", name="Keep everything as it is").click()
        await expect(page.locator("dialog")).to_have_count(0)
        await api.ok("GET", "/v1/topics/orders")
        await page.get_by_role("button", name="Delete orders").click()
        await page.get_by_role("button", name="Delete it").click()
        await expect(page.get_by_text("orders is deleted.")).to_be_visible()
        await api.refused(404, "GET", "/v1/topics/orders")
        await page.goto(f"{api.emulator.url}/#/groups")
        await expect(page.get_by_role("heading", name="Groups")).to_be_visible()
        await page.get_by_label("Name", exact=True).fill("billing")
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="billing").click()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("button", name="Delete it").click()
        await expect(page.get_by_text("No groups yet")).to_be_visible()


@pytest.mark.slow
async def test_a_fault_is_made_fires_and_is_switched(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "faults") as page:
        await page.get_by_role("combobox", name="Operation").select_option("send")
        await page.get_by_role("button", name="Add the rule").click()
        await expect(page.get_by_text("The fault fault-1 is active.")).to_be_visible()
        await api.refused(503, "POST", "/v1/topics/orders/messages", {"body": "x"})
        row = page.get_by_role("row", name=re.compile("fault-1"))
        state, fired = row.get_by_role("cell").nth(3), row.get_by_role("cell").nth(5)
        await expect(fired).to_have_text("1")
        await page.get_by_role("button", name="Switch off fault-1").click()
        await expect(state).to_have_text("off")
        await api.send()
        await page.get_by_role("button", name="Switch on fault-1").click()
        await expect(state).to_have_text("active")
        await page.get_by_role("button", name="Remove fault-1").click()
        await expect(page.get_by_text("No injected faults")).to_be_visible()


@pytest.mark.slow
async def test_the_result_of_an_action_is_shown_although_a_later_read_overtakes_its_own(
    browser: "Browser", api: Api
) -> None:
    held: asyncio.Queue[Route] = asyncio.Queue()
    await api.ok("POST", "/v1/faults", {"do": "hold", "topic": "none"})
    async with console_page(browser, api.emulator.url, "faults") as page:
        remove = page.get_by_role("button", name="Remove fault-1")
        await expect(remove).to_be_visible()
        await page.route(
            "**/v1/faults",
            lambda route: held.put(route) if route.request.method == "GET" else route.fallback(),
        )
        await remove.click()  # the button keeps the focus, so reads without an action do not redraw the table
        own = await held.get()
        await api.send()
        later = await held.get()
        await own.continue_()
        await later.continue_()
        await expect(page.get_by_text("No injected faults")).to_be_visible()


@pytest.mark.slow
async def test_lateness_is_streamed_by_level(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "lateness") as page:
        await expect(page.get_by_text("Nothing delivered in the last five minutes")).to_be_visible()
        await api.send(delay_level=3)
        await page.keyboard.press("3")
        await expect(page.get_by_role("row", name=re.compile("level 3"))).to_contain_text("0 µs")


ROOMS = (
    *("levels", "levels/1", "levels/5", "levels/17", "levels/time", "clients", "faults", "lateness"),
    *("messages", "messages?text=order", "messages?key=none", "messages?state=none", "messages?state=dead"),
    *("messages/shown", "messages/dead", "messages/taken", "messages/cancelled", "messages/bytes"),
    *("messages/none", "topics/none", "groups/none", "send", "send?level=3", "send?at", "send?again=shown"),
    *("topics", "topics/bills", "groups", "groups/billing"),
)


async def fill(api: Api) -> None:
    """Put something into each room."""
    await api.send(body='{"order": [7, null, "x"]}', delay_level=5, keys=["7"], tag="new", message_id="shown")
    await api.send(body="at a time", delay_ms=90_000)
    await api.send(body="held", delay_level=17)
    await api.send(body="never mind", delay_ms=80_000, message_id="cancelled")
    await api.ok("DELETE", "/v1/delayed/cancelled")
    raw = {"body_base64": "AAH/", "message_id": "bytes"}
    await api.ok("POST", "/v1/topics/raw/messages", raw)
    await api.send(topic="raw", body="hanging", message_id="taken")
    await api.receive("raw", "hanging", filter="*")
    await api.send(topic="bills", body="order", message_id="dead")
    [taken] = await api.receive("bills")
    await api.send(topic="bills", body="late", delay_level=1)
    await api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    await api.ok("POST", "/v1/faults", {"do": "hold", "level": 17})
    await api.ok("POST", "/v1/groups/billing/give-back", {"receipts": [taken["receipt"]], "delay_level": -1})


@pytest.mark.parametrize(
    ("width", "dark", "locale"),
    [
        (1_280, False, "en"),
        pytest.param(390, True, "en", marks=pytest.mark.slow),
        pytest.param(2_560, False, "zh-CN", marks=pytest.mark.slow),
        pytest.param(740, True, "en", marks=pytest.mark.slow),
        pytest.param(320, False, "zh-CN", marks=pytest.mark.slow),
    ],
)
async def test_every_view_is_accessible_at_each_width(
    browser: "Browser", api: Api, width: int, dark: bool, locale: str
) -> None:
    await fill(api)
    async with console_page(browser, api.emulator.url, width=width, dark=dark, locale=locale) as page:
        for room in ROOMS:
            await page.goto(f"{api.emulator.url}/#/{room}")
            await expect(page.locator("main")).to_have_attribute("data-room", re.split("[/?]", room)[0])
            await expect(page.locator(".due")).to_contain_text("order")
            await expect(page.locator("h1")).to_be_visible()
            assert (room, await violations(page)) == (room, [])
            assert (room, await unsaid(page)) == (room, [])
            assert (room, await overflow(page)) == (room, 0)


async def test_dialogs_notices_and_first_steps_are_accessible(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url) as page:
        await page.emulate_media(reduced_motion="reduce")  # a notice that fades in has little contrast
        await expect(page.get_by_role("heading", name="No messages yet")).to_be_visible()
        assert await violations(page) == []
        await api.send(delay_level=3)
        await page.get_by_role("button", name="Keyboard shortcuts").click()
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        assert await violations(page) == []
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="move to a time").click()
        await expect(page.get_by_label("Move to", exact=True)).to_be_visible()
        await page.get_by_role("button", name="+1 s: move the clock").click()
        await expect(page.get_by_text("Moved by 1.0 s: nothing was due.")).to_be_visible()
        assert await violations(page) == []
        await page.goto(f"{api.emulator.url}/#/levels/3")
        await page.get_by_role("button", name="Cancel all").click()
        await expect(page.get_by_role("dialog", name="Cancel all?")).to_be_visible()
        assert await violations(page) == []


async def test_what_the_broker_does_not_know_is_said_in_the_page(browser: "Browser", api: Api) -> None:
    async with console_page(browser, api.emulator.url, "messages/none") as page:
        for address, noun in (
            ("messages/none", "message"),
            ("topics/none", "topic"),
            ("groups/none", "group"),
        ):
            await page.goto(f"{api.emulator.url}/#/{address}")
            await expect(page.get_by_text(f"No such {noun}")).to_be_visible()
            await expect(page.get_by_role("heading", name="none")).to_be_visible()
            await expect(page.locator(".notice")).to_have_count(0)
            await expect(page.get_by_role("button", name="Delete")).to_have_count(0)


async def test_start_deliver_times_are_listed_by_due_time(browser: "Browser", api: Api) -> None:
    for body in (70, 20, 45):
        await api.send(body=f"after {body} s", delay_ms=body * 1_000)
    async with console_page(browser, api.emulator.url, "levels/time") as page:
        bodies = page.locator("tbody a.clip")
        await expect(bodies).to_have_text(["after 20 s", "after 45 s", "after 70 s"])
        for number in range(100):
            await api.send(body=str(number), delay_ms=1_000 + number)
        await expect(page.get_by_text("103 messages waiting. Listed are the 100 due first.")).to_be_visible()
        await page.get_by_role("button", name="Show more").click()
        await expect(bodies).to_have_count(103)
        await expect(bodies.last).to_have_text("after 70 s")
        await expect(page.get_by_role("button", name="Show more")).to_be_hidden()
