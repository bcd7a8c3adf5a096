"""A slave that acts as the master while its broker is down, on a real broker and on mocketmq."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.differential.acting_plays import ACTING_PLAYS, BEGIN
from tests.differential.cluster_known import ACTING_RULES
from tests.differential.cluster_pair import Pair, running_pair
from tests.differential.cluster_side import A

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]

SETTINGS: Final = {
    "enableSlaveActingMaster": "true",
    "brokerNotActiveTimeoutMillis": "600000",  # routes leave a broker out when its process ends
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:  # noqa: ARG001
    """Run a broker with its slave, twice."""
    home = tmp_path_factory.mktemp("acting") / "theirs"
    options, of_name_server = ("--failover", "acting-master"), {"supportActingMaster": "true"}
    async with running_pair(
        home,
        (A,),
        BEGIN,
        ACTING_PLAYS,
        *options,
        settings=SETTINGS,
        of_name_server=of_name_server,
        rules=ACTING_RULES,
    ) as pair:
        yield pair


@pytest.mark.parametrize("name", ACTING_PLAYS)
async def test_acting_masters_answer_alike(pair: Pair, name: str) -> None:
    await pair.play(name, ACTING_PLAYS[name])
