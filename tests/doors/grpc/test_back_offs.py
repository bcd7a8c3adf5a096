"""The back-offs that consumers are told: the delay levels, or their group's retry policy."""

import json

from mocketmq.grpc_proxy.messages import us_of
from tests.support.grpc import running_grpc
from tests.support.remoting import connected

CREATE_GROUP = 200


async def test_back_offs_follow_the_retry_policy_of_the_group() -> None:
    policies = (
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 200, "max": 3_000, "multiplier": 3}},
        {"type": "EXPONENTIAL"},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100, 2_500]}},
        {"type": "CUSTOMIZED"},
    )
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as admin:
            told = []
            for policy in policies:
                group = {"groupName": "billing", "retryMaxTimes": 5, "groupRetryPolicy": policy}
                answer = await admin.call(CREATE_GROUP, body=json.dumps(group).encode())
                assert (answer.code, answer.remark) == (0, None)
                told.append((await telemetry.consume()).settings.backoff_policy)
    exponential, usual, customized, levels = told
    backoff = exponential.exponential_backoff
    assert (us_of(backoff.initial), us_of(backoff.max), backoff.multiplier) == (200_000, 3_000_000, 3)
    backoff = usual.exponential_backoff
    assert (us_of(backoff.initial), us_of(backoff.max), backoff.multiplier) == (5_000_000, 7_200_000_000, 2)
    assert [us_of(each) for each in customized.customized_backoff.next] == [100_000, 2_500_000]
    assert len(levels.customized_backoff.next) == 18
    assert {one.max_attempts for one in told} == {6}
