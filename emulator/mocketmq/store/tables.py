"""The schema, as SQL. Alembic's newest revision creates exactly these tables.

A new store is created from this text; ``mocketmq_migrations`` upgrades older stores. A new column also needs
a migration. A new column of the ledger also needs ``schedule/ledger.py`` and the report's
``ledger/columns.py``.

Instants are integer microseconds since the epoch (``_us``) of the emulator's clock, unless the name
says ``wall``. Tables on the hot path have only indexes whose order is the order of arrival.
"""

from typing import Final

HEAD_REVISION: Final = "0018"
"""The Alembic revision of these tables."""

SCHEMA: Final = (
    """
CREATE TABLE topics (
    name TEXT NOT NULL PRIMARY KEY,
    read_queues INTEGER NOT NULL,
    write_queues INTEGER NOT NULL,
    perm INTEGER NOT NULL,  -- bits: 4 read, 2 write, 1 inherit
    config TEXT NOT NULL DEFAULT '{}'  -- JSON
) WITHOUT ROWID;

-- Those of a deleted topic stay: messages may refer to them, and a new topic of the same name goes on with
-- their offsets.
CREATE TABLE queues (
    key INTEGER NOT NULL PRIMARY KEY,
    topic TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    -- Offsets below min_offset were removed. next_offset is a lower bound, for a queue whose newest messages
    -- were removed; otherwise the next offset follows from the messages.
    min_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    emptied_at BIGINT NOT NULL DEFAULT 0,  -- the next log offset when its topic was last reset or deleted
    lite_topic TEXT  -- the lite topic of which this is the queue; null: a queue of the topic itself
);
CREATE UNIQUE INDEX queues_by_topic ON queues (topic, queue_id);

CREATE TABLE messages (
    log_offset INTEGER NOT NULL PRIMARY KEY,
    queue_key INTEGER NOT NULL,
    queue_offset BIGINT NOT NULL,
    store_us BIGINT NOT NULL,
    born_us BIGINT NOT NULL,
    born_host TEXT NOT NULL,
    store_host TEXT NOT NULL,
    flag INTEGER NOT NULL,
    sys_flag INTEGER NOT NULL,
    body BLOB NOT NULL,
    properties TEXT NOT NULL,
    tag_hash INTEGER NOT NULL,
    reconsume_times INTEGER NOT NULL,
    unique_key TEXT NOT NULL,
    due_us BIGINT,
    real_queue_key INTEGER,
    parked_offset BIGINT,
    prepared_offset BIGINT,
    door TEXT,  -- by which it was sent; null: unknown
    kind TEXT NOT NULL DEFAULT 'sent'  -- what the record is: mocketmq.message.message.RecordKind
);
CREATE UNIQUE INDEX messages_by_queue ON messages (queue_key, queue_offset);
CREATE INDEX messages_retried ON messages (queue_key, queue_offset) WHERE kind = 'retried';

CREATE TABLE delay_offsets (
    level INTEGER NOT NULL PRIMARY KEY,
    next_offset BIGINT NOT NULL  -- next entry of the level queue to deliver
);

CREATE TABLE interventions (
    parked_offset INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,  -- cancelled, forced
    at_us BIGINT NOT NULL
);

-- Messages of timed schemes that are done with, by identity. Never removed: it tells a file that is copied
-- back from a backup years later.
CREATE TABLE timed_messages (
    number INTEGER NOT NULL,
    key_hash INTEGER NOT NULL,
    due_ms BIGINT NOT NULL,
    outcome TEXT NOT NULL,  -- delivered, forced, cancelled, cleared
    log_offset BIGINT NOT NULL,  -- of the record that it became; -1: none
    PRIMARY KEY (number, key_hash)
) WITHOUT ROWID;
CREATE INDEX timed_messages_early ON timed_messages (due_ms) WHERE outcome <> 'delivered';

CREATE TABLE deliveries (
    delivered_offset INTEGER NOT NULL PRIMARY KEY,
    run INTEGER NOT NULL,
    parked_offset BIGINT NOT NULL,
    unique_key TEXT NOT NULL,
    topic TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    queue_offset BIGINT NOT NULL,
    scheme TEXT NOT NULL,
    level INTEGER,
    attempt INTEGER NOT NULL,
    size INTEGER NOT NULL,
    forced INTEGER NOT NULL,
    born_us BIGINT NOT NULL,
    stored_us BIGINT NOT NULL,
    due_us BIGINT NOT NULL,
    picked_us BIGINT NOT NULL,
    delivered_us BIGINT NOT NULL,
    pulled_us BIGINT,
    pulled_by TEXT,
    acked_us BIGINT,
    fault TEXT  -- the rule that put this delivery off, or made it as a repeat
);

CREATE TABLE groups (
    name TEXT NOT NULL PRIMARY KEY,
    max_retries INTEGER NOT NULL,
    retry_queues INTEGER NOT NULL,
    config TEXT NOT NULL DEFAULT '{}'  -- JSON
) WITHOUT ROWID;

CREATE TABLE progress (
    group_name TEXT NOT NULL,
    queue_key INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,  -- all below were taken or skipped
    PRIMARY KEY (group_name, queue_key)
) WITHOUT ROWID;

CREATE TABLE receipts (
    group_name TEXT NOT NULL,
    log_offset INTEGER NOT NULL,
    queue_key INTEGER NOT NULL,
    queue_offset BIGINT NOT NULL,
    times INTEGER NOT NULL,  -- how often it was taken by receipt
    first_taken_us BIGINT,
    last_taken_us BIGINT,
    visible_us BIGINT NOT NULL,  -- open: when it can be taken again
    settled_us BIGINT,
    -- acked, retried, dead, passed; of half messages: committed, rolled back, abandoned
    outcome TEXT,
    pop_ms BIGINT,  -- wall time that names the receipt to a client that popped it
    -- once there is more than one take: the newest takes and changes of the invisible time (receipt_rows)
    attempts TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (group_name, log_offset)
) WITHOUT ROWID;
CREATE INDEX receipts_open ON receipts (group_name) WHERE settled_us IS NULL;

CREATE TABLE request_modes (
    topic TEXT NOT NULL,
    group_name TEXT NOT NULL,
    mode TEXT NOT NULL,  -- PULL, POP
    share_queues INTEGER NOT NULL,  -- POP: queues of how many further members, 0 for all
    PRIMARY KEY (topic, group_name)
) WITHOUT ROWID;

CREATE TABLE kv_configs (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

-- Users of RocketMQ 5 that were created by clients. Passwords are kept as they are, because signatures are
-- computed from them.
CREATE TABLE users (
    name TEXT NOT NULL PRIMARY KEY,
    password TEXT NOT NULL,
    type TEXT NOT NULL,  -- Super, Normal
    status TEXT NOT NULL,  -- enable, disable
    policies TEXT NOT NULL DEFAULT '[]'  -- JSON
) WITHOUT ROWID;

CREATE TABLE message_keys (
    key_hash BIGINT NOT NULL,
    log_offset BIGINT NOT NULL,
    PRIMARY KEY (key_hash, log_offset)
) WITHOUT ROWID;

CREATE TABLE runs (
    run INTEGER NOT NULL PRIMARY KEY,
    started_wall_us BIGINT NOT NULL,
    started_us BIGINT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    profile TEXT NOT NULL,
    clock TEXT NOT NULL,
    levels TEXT NOT NULL,
    durability TEXT NOT NULL,
    brokers TEXT NOT NULL DEFAULT ''  -- names of the cluster's brokers, with commas; empty for a single one
);

CREATE TABLE clock_moves (
    move INTEGER NOT NULL PRIMARY KEY,
    run INTEGER NOT NULL,
    wall_us BIGINT NOT NULL,
    from_us BIGINT NOT NULL,
    to_us BIGINT NOT NULL
);

-- Rules of injected faults.
CREATE TABLE faults (
    name TEXT NOT NULL PRIMARY KEY,
    rule TEXT NOT NULL,  -- JSON
    made_us BIGINT NOT NULL,
    matched INTEGER NOT NULL,
    fired INTEGER NOT NULL
) WITHOUT ROWID;

-- Requests and deliveries into which a fault was injected.
CREATE TABLE fault_hits (
    at_us BIGINT NOT NULL,
    fault TEXT NOT NULL,
    do TEXT NOT NULL,
    door TEXT NOT NULL,
    operation TEXT NOT NULL,
    unique_key TEXT,  -- of the message that it was about, if known
    next_offset BIGINT NOT NULL DEFAULT 0,  -- the next log offset then
    topic TEXT,  -- that a request was about
    group_name TEXT,
    to_us BIGINT  -- until when somebody is away or an answer is late; null: not known
);
CREATE INDEX fault_hits_by_key ON fault_hits (unique_key);

-- Due messages that a fault keeps from being visible, and repeats that it wants.
CREATE TABLE held_deliveries (
    held INTEGER NOT NULL PRIMARY KEY,
    release_us BIGINT,  -- null: when the rule ends
    fault TEXT NOT NULL,
    is_repeat INTEGER NOT NULL,
    record_offset BIGINT NOT NULL,
    parked_offset BIGINT NOT NULL,
    queue_key INTEGER NOT NULL,
    scheme TEXT NOT NULL,
    level INTEGER,
    stored_us BIGINT NOT NULL,
    due_us BIGINT NOT NULL,
    size INTEGER NOT NULL
);
CREATE INDEX held_deliveries_by_release ON held_deliveries (release_us);
CREATE INDEX held_deliveries_by_record ON held_deliveries (record_offset);

CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,  -- next_log_offset, keys_indexed_to, reset_at_move
    value BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
"""
    f"INSERT INTO alembic_version VALUES ('{HEAD_REVISION}');"
)
