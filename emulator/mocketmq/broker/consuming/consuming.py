"""The parts of consuming, and how they are loaded from the store."""

from dataclasses import dataclass

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.consuming.offset_resets import Offsets
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pops import Pops
from mocketmq.broker.consuming.pull import Pull
from mocketmq.broker.consuming.pull_trail import PullTrail
from mocketmq.broker.consuming.queue_locks import QueueLocks
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.receiver import Receiver
from mocketmq.broker.consuming.renewals import Renewals
from mocketmq.broker.consuming.retries import Retries
from mocketmq.broker.registry.registry import Registry
from mocketmq.contracts.contract import Contract
from mocketmq.schedule.ledger import Ledger
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.store import Store


@dataclass(frozen=True)
class Consuming:
    """Consuming by receipt, pop and offset; long polls, receipts, notes in the ledger and queue locks."""

    groups: ConsumingGroups
    notes: LedgerNotes
    polls: Polls
    receipts: Receipts
    receiver: Receiver
    renewals: Renewals
    pops: Pops
    committed: CommittedOffsets
    pull: Pull
    offsets: Offsets
    queue_locks: QueueLocks
    trail: PullTrail


async def open_consuming(
    store: Store,
    settings: Settings,
    registry: Registry,
    polls: Polls,
    ledger: Ledger,
    levels: LevelQueues,
    timer: Timer,
    contract: Contract | None,
) -> Consuming:
    """Load the groups' receipts and offsets."""
    retries = Retries(registry.topics, levels, store.writer.store_host)
    groups = ConsumingGroups(store, registry.groups)
    await groups.load(registry.topics)
    receipts = Receipts(store, registry, groups, polls, timer.changed)
    await receipts.load()
    receiver = Receiver(store, registry, groups, receipts, polls, ledger, retries, contract)
    notes, trail = LedgerNotes(store.writer, ledger), PullTrail()
    committed = CommittedOffsets(store, registry, groups, polls, notes, trail)
    pull = Pull(
        store,
        registry,
        groups,
        receipts,
        polls,
        notes,
        retries,
        trail,
        max_messages=settings.max_pull_messages,
        max_bytes=settings.max_pull_bytes,
    )
    return Consuming(
        groups=groups,
        notes=notes,
        polls=polls,
        receipts=receipts,
        receiver=receiver,
        renewals=Renewals(receiver, timer.changed),
        pops=Pops(store, registry, groups, polls, receiver),
        committed=committed,
        pull=pull,
        offsets=Offsets(store, registry, groups, committed),
        queue_locks=QueueLocks(),
        trail=trail,
    )
