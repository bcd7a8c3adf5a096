"""A send to a missing topic whose creation RocketMQ may have given up."""

import pytest

from tests.differential import operations
from tests.differential.op import Ends
from tests.differential.operations import side
from tests.support.patience import PATIENCE_S
from tests.support.remoting import running_remoting


@pytest.mark.asyncio
@pytest.mark.parametrize(("creation_s", "is_chance"), [(PATIENCE_S, False), (0.0, True)])
async def test_only_an_answer_after_its_wait_is_chance(
    creation_s: float, is_chance: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "CREATION_S", creation_s)
    async with running_remoting() as remoting:
        server = remoting.server
        ends = Ends(remoting.emulator.settings.host, server.namesrv_port, server.broker_port)
        async with side(ends, "run") as one:
            seen = await one.send(310, "1", "", topic="T0", default_topic="no", sys_flag=0)
            assert (seen["code"], one.arrivals.by_chance) == (17, is_chance)
