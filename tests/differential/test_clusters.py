"""A real cluster and mocketmq answer alike while brokers end and come back: two brokers with a slave each."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.differential.cluster_known import SLAVE_RULES, STATIC_RULES
from tests.differential.cluster_pair import Pair, running_pair
from tests.differential.cluster_plays import PLAYS, PREPARED
from tests.differential.cluster_side import BROKERS
from tests.differential.static_plays import STATIC_PLAYS

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]

ALL = {**STATIC_PLAYS, **PLAYS}
"""All plays. Those in which a broker ends are last."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:  # noqa: ARG001
    """Run both clusters."""
    home = tmp_path_factory.mktemp("clusters") / "theirs"
    async with running_pair(
        home, BROKERS, PREPARED, ALL, "--brokers", "2", rules=STATIC_RULES, of_slaves=SLAVE_RULES
    ) as pair:
        yield pair


@pytest.mark.parametrize("name", ALL)
async def test_clusters_answer_alike(pair: Pair, name: str) -> None:
    await pair.play(name, ALL[name])
