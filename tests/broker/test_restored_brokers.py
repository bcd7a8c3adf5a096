"""A restored snapshot is the state of a cluster that runs: what its slaves had before does not change it."""

from mocketmq.faults.rule import FaultRule
from tests.support.brokers import GROUP, TOPIC, S, bodies, running_broker, send, visible

A = "broker-a"


async def test_offsets_committed_at_an_acting_master_before_a_restore_are_gone() -> None:
    async with running_broker(slaves=1, failover="acting-master", topic_queues=1) as broker:
        for body in "abc":
            await send(broker, body)
        await broker.committed_offsets.commit(GROUP, TOPIC, 0, 1)
        await broker.snapshots.save("before")
        await broker.broker_lives.crash(A)
        broker.slave_offsets.commit(GROUP, broker.registry.topics.queue_of(TOPIC, 0), 3)
        await broker.snapshots.restore("before")
        assert broker.registry.brokers.broker_named(A).state == "running"
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 1


async def test_no_slave_is_promoted_for_a_crash_before_a_restore() -> None:
    """The restored clock is past the instant of the promotion, and the slave was behind."""
    async with running_broker(slaves=1, failover="controller", topic_queues=1) as broker:
        begin_us = broker.clock.now_us()
        await broker.mover.advance(1_000 * S)
        await send(broker, "kept")
        await broker.snapshots.save("later")
        await broker.reset.all(begin_us)
        await broker.faults.add_rule(FaultRule(do="replicate-late", by="100s"))
        await broker.mover.advance(200 * S)
        await broker.broker_lives.crash(A)
        await broker.snapshots.restore("later")
        assert bodies(await visible(broker)) == ["kept"]
