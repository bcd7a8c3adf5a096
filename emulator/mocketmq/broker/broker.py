"""The broker as the front doors see it: one object with a field for each part."""

import asyncio
from collections.abc import Sequence

from mocketmq.broker.broker_lives import BrokerLives
from mocketmq.broker.clock_mover import ClockMover
from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.consuming.offset_resets import Offsets
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pops import Pops
from mocketmq.broker.consuming.pull import Pull
from mocketmq.broker.consuming.queue_locks import QueueLocks
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.receiver import Receiver
from mocketmq.broker.consuming.retries import Retries
from mocketmq.broker.consuming.settler import Settler
from mocketmq.broker.consuming.visibility import ExpiredReceipts, Renewals
from mocketmq.broker.failover import Failover
from mocketmq.broker.inspection.consumer_lag import ConsumerLag
from mocketmq.broker.inspection.consumers import Consumers
from mocketmq.broker.inspection.group_progress import GroupProgress
from mocketmq.broker.inspection.history import Histories
from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.broker.inspection.recalls import Recalls
from mocketmq.broker.lite.expiry import LiteExpiry
from mocketmq.broker.lite.lite_topic_list import LiteTopicList
from mocketmq.broker.lite.subscriptions import LiteSubscriptions
from mocketmq.broker.name_servers import NameServerViews
from mocketmq.broker.outage import Outage
from mocketmq.broker.packs.pack_file import Pack
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.removal.crash_loss import CrashLoss
from mocketmq.broker.removal.reset import FullReset, Reset
from mocketmq.broker.removal.retention import Retention
from mocketmq.broker.replication import Replication, SlaveOffsets
from mocketmq.broker.seeding.seeder import Seeder
from mocketmq.broker.sending.replies import Replies
from mocketmq.broker.sending.sender import Sender
from mocketmq.broker.snapshots.snapshots import Snapshots
from mocketmq.broker.transactions.check_backs import CheckBacks
from mocketmq.broker.transactions.half_messages import HalfMessages
from mocketmq.broker.transactions.popped_halves import PoppedHalves
from mocketmq.broker.verification.events import Events
from mocketmq.broker.verification.expectations import Expectations
from mocketmq.broker.verification.leaks import Leaks
from mocketmq.broker.watching.live import Live
from mocketmq.broker.watching.message_list import MessageList
from mocketmq.broker.watching.message_states import MessageStates
from mocketmq.broker.watching.stored_records import StoredRecords
from mocketmq.clock import Clock
from mocketmq.faults.rule_set import FaultRules
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.store import Store


class Broker:
    """A running broker.

    :func:`~mocketmq.broker.building.open_broker` sets every field, roughly in this order, before it yields.
    """

    # The store
    store: Store
    polls: Polls
    message_keys: MessageKeys

    # Faults and the registry
    faults: FaultRules
    registry: Registry

    # The schedule
    timer: Timer
    ledger: LedgerWriter
    schemes: SchemeSet
    outage: Outage
    held: HeldDeliveries
    levels: LevelQueues

    # Consuming
    consuming_groups: ConsumingGroups
    receipts: Receipts
    retries: Retries
    receiver: Receiver
    settler: Settler
    expired_receipts: ExpiredReceipts
    renewals: Renewals
    ledger_notes: LedgerNotes
    pops: Pops
    committed_offsets: CommittedOffsets
    offset_resets: Offsets
    pull: Pull
    queue_locks: QueueLocks
    slave_offsets: SlaveOffsets
    replication: Replication
    crash_loss: CrashLoss
    broker_lives: BrokerLives
    failover: Failover
    name_servers: NameServerViews
    lite_expiry: LiteExpiry
    lite_subscriptions: LiteSubscriptions
    lite_topic_list: LiteTopicList

    # Sending and transactions
    sender: Sender
    seeder: Seeder
    replies: Replies
    half_messages: HalfMessages
    popped_halves: PoppedHalves
    check_backs: CheckBacks

    # Inspection, for people
    histories: Histories
    pending: PendingMessages
    mover: ClockMover
    recalls: Recalls
    group_progress: GroupProgress
    consumer_lag: ConsumerLag
    consumers: Consumers

    # Verification, for tests
    expectations: Expectations
    leaks: Leaks
    events: Events

    # Watching, for the console
    stored_records: StoredRecords
    message_states: MessageStates
    message_list: MessageList
    live: Live

    # Removal
    reset: Reset
    full_reset: FullReset
    retention: Retention

    # Snapshots
    snapshots: Snapshots
    opened_pack: Pack | None  # the pack from which the broker was opened

    tasks: Sequence[asyncio.Task[None]]
    """Background tasks, which run until the broker is closed. A task that ends earlier has failed."""

    @property
    def clock(self) -> Clock:
        """The emulated clock by which messages are stored and delivered."""
        return self.store.clock
