"""Refusals by delay limits in the system's words, with each protocol's code (docs/delay-limits.md)."""

from http import HTTPStatus

import pytest

from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.delay_limits import DELAY_LIMITS
from mocketmq.settings import DelayLimitsName
from tests.doors.remoting.popping import POP, pop, pop_of
from tests.doors.remoting.producing import refused, sent
from tests.support.aliyun import running_aliyun
from tests.support.api import running_api
from tests.support.grpc import running_grpc
from tests.support.remoting import running_remoting

HOUR_MS = 3_600_000
MESSAGES = "/v1/topics/orders/messages"
SQS = "Value 7200 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."


async def test_http_problem_has_the_reason_and_the_field() -> None:
    async with running_api(delay_limits="sqs") as api:
        for field, asked in (
            ("delay_level", {"delay_level": 18}),
            ("properties.TIMER_DELAY_SEC", {"properties": {"TIMER_DELAY_SEC": "7200"}}),
        ):
            problem = await api.refused(HTTPStatus.BAD_REQUEST, "POST", MESSAGES, {"body": "a", **asked})
            assert (problem["type"], problem["field"]) == ("/problems/illegal-message", field)
            assert problem["detail"] == SQS
        assert await api.receive() == []


@pytest.mark.parametrize("batch", [[{"body": "a"}, {"body": "b", "delay_level": 18}]])
async def test_batch_with_one_excessive_delay_is_refused_whole(batch: list[object]) -> None:
    async with running_api(delay_limits="sqs") as api:
        problem = await api.refused(HTTPStatus.BAD_REQUEST, "POST", f"{MESSAGES}/batch", {"messages": batch})
        assert SQS in problem["detail"]
        assert await api.receive() == []


@pytest.mark.parametrize(
    ("delay_limits", "properties", "words"),
    [
        ("sqs", {"DELAY": "18"}, SQS),
        ("sqs", {"TIMER_DELAY_SEC": "7200"}, SQS),
        (
            "rabbitmq",
            {"TIMER_DELAY_MS": "4294967296"},
            "PRECONDITION_FAILED - invalid expiration '4294967296': {value_too_big,4294967296}",
        ),
        (
            "rocketmq5",
            {"TIMER_DELAY_SEC": "259201"},
            "timer message illegal, the delay time should not be bigger than the max delay 259200000dms;"
            " or if set del msg, the delay time should be bigger than the current time",
        ),
        ("cmq", {"DELAY": "18"}, "Tencent's CMQ refuses a delay of 2h; allowed: at most 1h"),
        (
            "huawei5",
            {"TIMER_DELAY_SEC": "604801"},
            "Huawei's DMS for RocketMQ 5.x refuses a delay of 7d1s; allowed: at most 7d",
        ),
    ],
)
async def test_remoting_answers_illegal_message_with_the_reason(
    delay_limits: DelayLimitsName, properties: dict[str, str], words: str
) -> None:
    async with running_remoting(delay_limits=delay_limits) as remoting:
        assert await refused(remoting.client, properties=properties) == (13, words)
        await sent(remoting.client, properties={"DELAY": "3"})


async def test_level_of_another_system_is_still_delivered() -> None:
    async with running_remoting(delay_limits="sqs") as remoting:
        await sent(remoting.client, b"later", properties={"DELAY": "3"})
        assert (await remoting.broker.mover.advance(10 * US_PER_S - 1)).fired == 0
        assert (await remoting.broker.mover.advance(1)).fired == 1


async def test_aliyun_door_answers_invalid_argument() -> None:
    async with running_aliyun(delay_limits="sqs") as aliyun:
        start = str(wall_us() // US_PER_MS + 2 * HOUR_MS)
        answer = await aliyun.publish(__STARTDELIVERTIME=start)
        assert answer.error == (400, "InvalidArgument")
        assert answer.fields["Message"].endswith("Reason: DelaySeconds must be >= 0 and <= 900.")
        assert await aliyun.consume() == []


async def test_grpc_checks_delay_limits_before_the_limit_of_the_proxy() -> None:
    async with running_grpc(delay_limits="sqs") as (_, client):
        answer = await client.send(client.message("later", delay_s=7_200))
        [entry] = answer.entries
        assert entry.status.code == 50_001
        assert "for parameter DelaySeconds is invalid" in entry.status.message
    async with running_grpc(delay_limits="huawei5") as (emulator, client):
        answer = await client.send(client.message("later", delay_s=48 * 3_600))  # the proxy allows 24 h
        assert answer.entries[0].status.code == 20_000
        assert emulator.broker.schemes.pending == 1


async def test_half_message_is_refused_at_its_preparation() -> None:
    async with running_remoting(delay_limits="sqs") as remoting:
        half = {"TRAN_MSG": "true", "PGROUP": "GID_p", "DELAY": "18"}
        assert await refused(remoting.client, properties=half) == (13, SQS)


OVER_LIMIT = "OverLimit: The specified action violates a limit. Messages of orders in flight for "


@pytest.fixture
def one_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DELAY_LIMITS, "sqs", DELAY_LIMITS["sqs"]._replace(in_flight=1))


@pytest.mark.usefixtures("one_in_flight")
async def test_too_many_in_flight_over_http() -> None:
    async with running_api(delay_limits="sqs") as api:
        await api.ok("POST", MESSAGES, {"body": "a"})
        assert len(await api.receive()) == 1
        status = HTTPStatus.TOO_MANY_REQUESTS
        problem = await api.refused(status, "POST", "/v1/groups/billing/receive", {"topic": "orders"})
        assert (problem["type"], problem["detail"]) == ("/problems/over-limit", f"{OVER_LIMIT}billing: 1")


@pytest.mark.usefixtures("one_in_flight")
async def test_too_many_in_flight_over_tcp() -> None:
    async with running_remoting(delay_limits="sqs") as remoting:
        await sent(remoting.client)
        assert len(await pop(remoting.client)) == 1
        answer = await remoting.client.call(POP, pop_of())
        assert (answer.code, (answer.remark or "").startswith(OVER_LIMIT)) == (2, True)


@pytest.mark.usefixtures("one_in_flight")
async def test_too_many_in_flight_in_aliyuns_protocol() -> None:
    async with running_aliyun(delay_limits="sqs") as aliyun:
        await aliyun.publish()
        assert len(await aliyun.consume()) == 1
        answer = await aliyun.call("GET", "/topics/orders/messages?consumer=GID_a&numOfMessages=16")
        assert answer.error == (400, "QpsLimitExceeded")
        assert answer.fields["Message"] == f"{OVER_LIMIT}GID_a: 1"


@pytest.mark.usefixtures("one_in_flight")
async def test_too_many_in_flight_over_grpc() -> None:
    async with running_grpc(delay_limits="sqs") as (_, client):
        await client.send(client.message("a"))
        assert len(await client.receive()) == 1
        status, messages = await client.try_receive("billing", "orders", invisible_s=30, wait_s=0)
        assert (status.code, messages) == (42_900, [])
        assert status.message.startswith(OVER_LIMIT)
