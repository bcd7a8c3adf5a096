"""Web pages of other sites, in a browser that can reach the broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from mocketmq import Client
from tests.support.browser import console_page, running_browser
from tests.support.chromium import find_chromium, needs_chromium
from tests.support.patience import PATIENCE_S
from tests.support.process import BrokerProcess, forked_broker

EVIL = "http://evil.example"
XML = "<Message><MessageBody>x</MessageBody></Message>"
PATHS = (
    ("GET", "/v1/records"),
    ("GET", "/v1/clock"),
    ("GET", "/v1/stream"),
    ("POST", "/v1/topics/orders/messages"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/"),
    ("GET", "/console/main.js"),
    ("GET", "/rocketmq/nsaddr"),
    ("GET", "/topics/orders/messages?consumer=GID_real&numOfMessages=16"),
    ("POST", "/topics/orders/messages"),
    ("GET", "/none"),
)


async def ask(url: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as session,
        session.request(
            method, url + path, data=XML if "topics" in path else None, headers=headers
        ) as answer,
    ):
        is_problem = "problem" in answer.headers.get("Content-Type", "")
        return answer.status, await answer.json(content_type=None) if is_problem else None


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://[x]"},
        {"Origin": "http://a\u2100b"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
async def test_every_door_of_the_port_refuses_other_sites_pages(headers: dict[str, str]) -> None:
    async with forked_broker("--aliyun-port", "0") as broker, Client(broker.url) as client:
        aliyun = (await client.info())["doors"]["aliyun"]["port"]
        for method, path in PATHS:
            for url in (broker.url, f"http://127.0.0.1:{aliyun}") if "topics" in path else (broker.url,):
                status, problem = await ask(url, method, path, headers)
                assert (status, problem["type"]) == (403, "/problems/foreign-origin"), path
        assert await client.receive("orders", group="all") == []


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:9877", "127.0.0.1.nip.io", "xlocalhost.com"),
        *("a:b:c", "[::1]]x", "999.1.1.1", "127.0.0.1:x", "\u2100.example"),
    ],
)
async def test_every_door_of_the_port_refuses_public_host_names(host: str) -> None:
    async with forked_broker() as broker:
        for method, path in PATHS:
            status, problem = await ask(broker.url, method, path, {"Host": host})
            assert (status, problem["type"]) == (421, "/problems/foreign-host"), path
            assert "--allowed-hosts" in problem["detail"]


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:1", "[::1]:9877", "10.0.0.7", "localhost", "LOCALHOST:9877", "a.localhost"),
        *(
            "mocketmq",
            "emulator:9877",
            "mq.default.svc",
            "mq.default.svc.cluster.local",
            "host.docker.internal",
        ),
        *("mq.staging.example.com", "mq.staging.example.com:80"),
    ],
)
async def test_brokers_are_reached_by_addresses_private_names_and_allowed_ones(host: str) -> None:
    async with forked_broker("--allowed-hosts", "mq.staging.example.com,shop.example:3000") as broker:
        for path in ("/v1/clock", "/rocketmq/nsaddr", "/"):
            assert (await ask(broker.url, "GET", path, {"Host": host}))[0] == 200
        own, partner = {"Origin": f"http://{host.lower()}"}, {"Origin": "http://shop.example:3000"}
        for headers in (own, partner):
            assert (await ask(broker.url, "GET", "/v1/clock", headers | {"Host": host}))[0] == 200
        other = {"Origin": "http://shop.example:3001", "Host": host}
        assert (await ask(broker.url, "GET", "/v1/clock", other))[0] == 403


async def test_all_hosts_may_be_allowed_and_pages_be_linked() -> None:
    async with forked_broker("--allowed-hosts", "*") as broker:
        assert (await ask(broker.url, "GET", "/v1/clock", {"Host": "evil.example"}))[0] == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with forked_broker() as broker:
        for path in ("/", "/docs", "/v1/clock"):
            assert (await ask(broker.url, "GET", path, link))[0] == 200
        for method, path in PATHS[-4:-1]:
            assert (await ask(broker.url, method, path, link))[0] == 403, path


@asynccontextmanager
async def evil_site(page: str) -> AsyncIterator[int]:
    """Run a site that serves this page, and return its port."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield int(urlsplit(site.name).port or runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def browser_page(address: str) -> AsyncIterator[Any]:
    """Open a page in a Chromium that resolves evil.example to this address."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(),
            args=[
                *("--no-sandbox", "--disable-gpu"),
                f"--host-resolver-rules=MAP evil.example {address}",
                "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
            ],
        )
        try:
            yield await browser.new_page()
        finally:
            await browser.close()


async def sent(broker: BrokerProcess, *bodies: str) -> None:
    async with Client(broker.url) as client:
        for body in bodies:
            await client.send("orders", body)


ATTACK = """async ([broker, message]) => {
    const messages = `${broker}/topics/orders/messages`;
    const receive = `${messages}?consumer=GID_real&numOfMessages=16`;
    const tries = [
        fetch(messages, {method: "POST", mode: "no-cors", body: message}),
        fetch(receive, {mode: "no-cors"}),
        fetch(`${broker}/v1/reset`, {method: "POST", mode: "no-cors"}),
        new Promise((done) => {
            const image = new Image();
            image.onload = image.onerror = done;
            image.src = receive;
        }),
    ];
    return (await Promise.allSettled(tries)).map((one) => one.status);
}"""

READ = """async () => {
    const paths = ["/v1/records", "/v1/clock", "/metrics", "/rocketmq/nsaddr",
        "/topics/a/messages?consumer=G"];
    return Promise.all(paths.map(async (path) => (await fetch(path)).status));
}"""


@needs_chromium
async def test_foreign_page_in_a_browser_sends_and_takes_no_message() -> None:
    async with (
        forked_broker() as broker,
        evil_site("<title>evil</title>") as port,
        browser_page("127.0.0.1") as page,
    ):
        await sent(broker, "kept")
        await page.goto(f"{EVIL}:{port}/")
        assert len(await page.evaluate(ATTACK, [broker.url, XML])) == 4
        async with Client(broker.url) as client:
            taken = await client.receive("orders", group="GID_real", max_messages=16)
            assert [one["body"] for one in taken] == ["kept"]


@needs_chromium
async def test_dns_rebinding_reads_nothing_and_the_console_still_works() -> None:
    async with forked_broker() as broker, browser_page("127.0.0.1") as page:
        await page.goto(f"{EVIL}:{urlsplit(broker.url).port}/")
        assert await page.evaluate(READ) == [421] * 5
        async with running_browser() as browser, console_page(browser, broker.url) as console:
            await console.get_by_role("navigation").first.wait_for()
