"""Consumer groups: first use never overwrites requested settings, and system groups always exist."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.errors import GroupNotFoundError
from tests.support.brokers import GROUP, receive, rows, running_broker, send


@pytest.mark.parametrize("is_used_first", [True, False])
async def test_first_use_keeps_a_concurrent_explicit_creation(tmp_path: Path, is_used_first: bool) -> None:
    async with running_broker(tmp_path) as broker:
        groups = broker.registry.groups
        both = [groups.put(GROUP, 3, 2), groups.for_use(GROUP)]
        before = broker.store.writer.commits
        one, other = await asyncio.gather(*(reversed(both) if is_used_first else both))
        assert broker.store.writer.commits == before + 1
        assert one is other is groups.get(GROUP)
        assert (one.max_retries, one.retry_queues) == (3, 2)
    assert rows(tmp_path, "SELECT name, max_retries, retry_queues FROM groups") == [
        {"name": GROUP, "max_retries": 3, "retry_queues": 2}
    ]


async def test_a_concurrent_first_use_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for _ in range(2):
            made = await broker.registry.groups.put(GROUP, 16, 1, replace=False)
            await broker.registry.groups.put(GROUP, 3, 2)
        assert (made.max_retries, made.retry_queues) == (3, 2)
    assert rows(tmp_path, "SELECT max_retries FROM groups") == [{"max_retries": 3}]


@pytest.mark.parametrize(
    "group",
    [
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_ANY",
    ],
)
async def test_system_groups_can_be_used_even_when_no_group_is_created_on_first_use(group: str) -> None:
    async with running_broker(auto_create_groups=False) as broker:
        await send(broker)
        assert len(await receive(broker, group=group)) == 1
        with pytest.raises(GroupNotFoundError):
            await receive(broker, group=f"X{group}")


async def test_group_deleted_during_its_creation_is_returned(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        groups = broker.registry.groups
        making = asyncio.create_task(groups.put(GROUP, 3, 2))
        deleting = broker.store.writer.commit(lambda batch: groups.delete(batch, GROUP), until="visible")
        await asyncio.gather(asyncio.sleep(0), deleting)
        assert (await making).max_retries == 3
        assert GROUP not in [group.name for group in groups]
