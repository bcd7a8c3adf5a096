"""Each scheme opens the data directories of an earlier version, after a stop and after a kill.

Commit 8fbf314 wrote ``earlier_data.tar.xz``. For each scheme it has the data directory of a broker that was
stopped and of a broker that was killed, each with a manual clock. Each broker had sent five messages to
``orders``, named by their bodies: ``26h``, ``cancelled`` (due after an hour), ``20m``, ``delivered`` (after
seven seconds) and ``30s``. The clock was then moved by ten seconds, and ``cancelled`` was cancelled.
"""

import tarfile
from pathlib import Path

import pytest

from mocketmq.message.properties import decode_properties
from mocketmq.settings import TimedSchemeName
from tests.support.brokers import S, rows, running_broker, visible
from tests.support.second_directories import in_order_of_delivery, listed

ARCHIVE = Path(__file__).with_name("earlier_data.tar.xz")
MOVED_S = 10
PENDING_S = {"30s": 30, "20m": 20 * 60, "26h": 26 * 3_600}
"""Delay of each pending message."""


@pytest.mark.parametrize("ended", ["stopped", "killed"])
async def test_data_of_an_earlier_version_opens(scheme: TimedSchemeName, ended: str, tmp_path: Path) -> None:
    part = f"{scheme}-{ended}"
    with tarfile.open(ARCHIVE) as archive:
        members = [each for each in archive if each.name.split("/")[0] == part]
        archive.extractall(tmp_path, members, filter="data")
    data = tmp_path / part
    came = ["delivered"]
    async with running_broker(data, timed_scheme=scheme, retain_age_us=0) as broker:
        assert await listed(broker) == ["26h", "20m", "30s"]
        passed_us = MOVED_S * S
        for body, delay_s in PENDING_S.items():
            await broker.mover.advance(delay_s * S - passed_us - 1)
            assert await in_order_of_delivery(broker) == came
            assert (await broker.mover.advance(1)).fired == 1
            came.append(body)
            passed_us = delay_s * S
        assert await in_order_of_delivery(broker) == came
        for message in await visible(broker):
            properties = decode_properties(message.properties)
            found = [properties[name] for name in ("region", "TAGS", "KEYS")]
            assert found == ["eu", "old", message.body.decode()]
    async with running_broker(data, timed_scheme=scheme, retain_age_us=0) as broker:
        assert (await broker.mover.advance(100 * 3_600 * S)).fired == broker.schemes.pending == 0
        assert await in_order_of_delivery(broker) == came
    on_time = rows(data, "SELECT count(*) AS n FROM deliveries WHERE delivered_us = due_us")
    assert on_time == [{"n": 4}]
