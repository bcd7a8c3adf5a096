"""Mutated requests by every protocol cause no defect, and honest clients are served. See ``make fuzz``."""

from pathlib import Path

import pytest

from mocketmq.failpoint import ENVIRONMENT
from tests.hostile.fuzz.doors import fuzzed_doors
from tests.hostile.fuzz.fuzzer import case, fuzz
from tests.support.patience import HANGING_S
from tests.support.process import broker_process, forked_broker

DOORS = {"remoting", "name server", "gRPC", "JSON", "Aliyun HTTP"}


@pytest.mark.parametrize(
    "cases", [pytest.param(100, id="short"), pytest.param(1_000, id="long", marks=pytest.mark.slow)]
)
async def test_mutated_requests_show_no_defect(cases: int, tmp_path: Path) -> None:
    async with forked_broker("--data", str(tmp_path / "data")) as broker:
        fuzzed = await fuzz(broker, 1, cases=cases, seconds=HANGING_S, kept=tmp_path / "kept")
    assert fuzzed.findings == []
    assert dict(fuzzed.cases) == dict.fromkeys(DOORS, cases)
    assert min(fuzzed.answered.values()) > cases // 20


async def test_defect_is_found_and_its_case_can_be_replayed(tmp_path: Path) -> None:
    failing = {ENVIRONMENT: "receive.taken:1=EIO"}
    async with broker_process(env=failing) as broker:
        fuzzed = await fuzz(broker, 1, cases=3_000, seconds=HANGING_S, kept=tmp_path)
        assert any("Input/output error" in found for found in fuzzed.findings), fuzzed.findings
        for path in tmp_path.iterdir():  # noqa: ASYNC240 - nothing else runs
            name, seed, number = path.name.rsplit("-", 2)
            [door] = [each for each in await fuzzed_doors(broker) if each.name.replace(" ", "-") == name]
            assert case(int(seed), door, int(number)) == path.read_bytes()
