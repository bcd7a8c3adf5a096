"""Address discovery: the HTTP request of ONS clients before they use remoting (T-10)."""

from collections.abc import AsyncIterator

import pytest

from tests.support.aliyun import Aliyun, running_aliyun

PATHS = ["/rocketmq/nsaddr", "/rocketmq/nsaddr4client-internet", "/rocketmq/nsaddr4client-internal"]


@pytest.fixture
async def aliyun() -> AsyncIterator[Aliyun]:
    async with running_aliyun(aliyun_port=0) as aliyun:
        yield aliyun


def namesrv_port(aliyun: Aliyun) -> int:
    """Return the name server port that the emulator picked."""
    assert aliyun.emulator.remoting
    return aliyun.emulator.remoting.namesrv_port


@pytest.mark.parametrize("more", ["", "-unit1", "-unit1?nofix=1", "?a=b&c"])
@pytest.mark.parametrize("path", PATHS)
async def test_the_response_is_a_single_address(aliyun: Aliyun, path: str, more: str) -> None:
    for url in (aliyun.emulator.url, aliyun.emulator.aliyun_url or ""):
        answer = await aliyun.call("GET", path + more, url=url)
        assert (answer.status, answer.body) == (200, f"127.0.0.1:{namesrv_port(aliyun)}".encode())
        assert answer.headers["Content-Type"] == "text/plain"
        assert int(answer.headers["Content-Length"]) == len(answer.body)


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("broker.test:8080", "broker.test"),
        ("broker", "broker"),
        ("10.0.0.7:9877", "10.0.0.7"),
        ("[::1]:9877", "[::1]"),
        ("[::1]", "[::1]"),
    ],
)
async def test_address_names_the_host_used_by_the_client(aliyun: Aliyun, host: str, named: str) -> None:
    answer = await aliyun.call("GET", PATHS[0], headers={"Host": host})
    assert (answer.status, answer.body) == (200, f"{named}:{namesrv_port(aliyun)}".encode())


async def test_address_without_host_header_is_that_of_the_socket(aliyun: Aliyun) -> None:
    reader, writer = await aliyun.open()
    writer.write(b"GET /rocketmq/nsaddr HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(f"\r\n\r\n127.0.0.1:{namesrv_port(aliyun)}".encode())
    writer.close()
    await writer.wait_closed()


async def test_address_can_be_configured_and_needs_no_token() -> None:
    async with running_aliyun(namesrv_address="names.test:1234", token="s3cret") as aliyun:  # noqa: S106
        answer = await aliyun.call("GET", PATHS[1])
        assert (answer.status, answer.body) == (200, b"names.test:1234")


async def test_without_a_name_server_no_address_is_returned() -> None:
    async with running_aliyun(remoting=False) as aliyun:
        answer = await aliyun.call("GET", PATHS[0])
        assert (answer.status, answer.body) == (404, b"remoting is off, so there is no name server")
    async with running_aliyun(remoting=False, namesrv_address="names.test:1234") as aliyun:
        answer = await aliyun.call("GET", PATHS[0])
        assert (answer.status, answer.body) == (200, b"names.test:1234")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/rocketmq", 404),
        ("GET", "/rocketmq/", 404),
        ("GET", "/rocketmq/nsaddr4client-elsewhere", 404),
        ("GET", "/rocketmq/nsaddrs", 404),
        ("GET", "/rocketmq/nsaddr/more", 404),
        ("POST", "/rocketmq/nsaddr", 405),
    ],
)
async def test_other_paths_and_methods_are_refused(
    aliyun: Aliyun, method: str, path: str, status: int
) -> None:
    answer = await aliyun.call(method, path)
    assert answer.status == status
    assert b"allowed: " in answer.body
