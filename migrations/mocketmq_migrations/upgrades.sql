CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE clock_moves (
    move INTEGER NOT NULL,
    run INTEGER NOT NULL,
    wall_us BIGINT NOT NULL,
    from_us BIGINT NOT NULL,
    to_us BIGINT NOT NULL,
    PRIMARY KEY (move)
);

CREATE TABLE counters (
    name TEXT NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (name)
)
 WITHOUT ROWID;

CREATE TABLE delay_offsets (
    level INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (level)
);

CREATE TABLE deliveries (
    delivered_offset INTEGER NOT NULL,
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
    PRIMARY KEY (delivered_offset)
);

CREATE TABLE groups (
    name TEXT NOT NULL,
    max_retries INTEGER NOT NULL,
    retry_queues INTEGER NOT NULL,
    PRIMARY KEY (name)
)
 WITHOUT ROWID;

CREATE TABLE interventions (
    parked_offset INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_us BIGINT NOT NULL,
    PRIMARY KEY (parked_offset)
);

CREATE TABLE message_keys (
    key_hash BIGINT NOT NULL,
    commit_offset BIGINT NOT NULL,
    PRIMARY KEY (key_hash, commit_offset)
)
 WITHOUT ROWID;

CREATE TABLE messages (
    commit_offset INTEGER NOT NULL,
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
    PRIMARY KEY (commit_offset)
);

CREATE UNIQUE INDEX messages_by_queue ON messages (queue_key, queue_offset);

CREATE TABLE progress (
    group_name TEXT NOT NULL,
    queue_key INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (group_name, queue_key)
)
 WITHOUT ROWID;

CREATE TABLE queues (
    "key" INTEGER NOT NULL,
    topic TEXT NOT NULL,
    queue_id INTEGER NOT NULL,
    min_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE UNIQUE INDEX queues_by_topic ON queues (topic, queue_id);

CREATE TABLE runs (
    run INTEGER NOT NULL,
    started_wall_us BIGINT NOT NULL,
    started_us BIGINT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    profile TEXT NOT NULL,
    clock TEXT NOT NULL,
    levels TEXT NOT NULL,
    durability TEXT NOT NULL,
    PRIMARY KEY (run)
);

CREATE TABLE takes (
    group_name TEXT NOT NULL,
    commit_offset INTEGER NOT NULL,
    queue_key INTEGER NOT NULL,
    queue_offset BIGINT NOT NULL,
    times INTEGER NOT NULL,
    first_taken_us BIGINT,
    last_taken_us BIGINT,
    visible_us BIGINT NOT NULL,
    settled_us BIGINT,
    outcome TEXT,
    PRIMARY KEY (group_name, commit_offset)
)
 WITHOUT ROWID;

CREATE INDEX takes_open ON takes (group_name) WHERE settled_us IS NULL;

CREATE TABLE topics (
    name TEXT NOT NULL,
    read_queues INTEGER NOT NULL,
    write_queues INTEGER NOT NULL,
    perm INTEGER NOT NULL,
    PRIMARY KEY (name)
)
 WITHOUT ROWID;

INSERT INTO alembic_version (version_num) VALUES ('0001') RETURNING version_num;

-- Running upgrade 0001 -> 0002

CREATE TABLE timed_messages (
    number INTEGER NOT NULL,
    key_hash INTEGER NOT NULL,
    due_ms BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    commit_offset BIGINT NOT NULL,
    PRIMARY KEY (number, key_hash)
)
 WITHOUT ROWID;

CREATE INDEX timed_messages_early ON timed_messages (due_ms) WHERE outcome <> 'delivered';

UPDATE alembic_version SET version_num='0002' WHERE alembic_version.version_num = '0001';

-- Running upgrade 0002 -> 0003

ALTER TABLE takes ADD COLUMN pop_ms BIGINT;

CREATE TABLE request_modes (
    topic TEXT NOT NULL,
    group_name TEXT NOT NULL,
    mode TEXT NOT NULL,
    share_queues INTEGER NOT NULL,
    PRIMARY KEY (topic, group_name)
)
 WITHOUT ROWID;

UPDATE alembic_version SET version_num='0003' WHERE alembic_version.version_num = '0002';

-- Running upgrade 0003 -> 0004

ALTER TABLE messages ADD COLUMN prepared_offset BIGINT;

UPDATE alembic_version SET version_num='0004' WHERE alembic_version.version_num = '0003';

-- Running upgrade 0004 -> 0005

ALTER TABLE topics ADD COLUMN particulars TEXT DEFAULT '{}' NOT NULL;

ALTER TABLE groups ADD COLUMN config TEXT DEFAULT '{}' NOT NULL;

CREATE TABLE kv_configs (
    namespace TEXT NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, "key")
)
 WITHOUT ROWID;

UPDATE alembic_version SET version_num='0005' WHERE alembic_version.version_num = '0004';

-- Running upgrade 0005 -> 0006

CREATE TABLE faults (
    name TEXT NOT NULL,
    rule TEXT NOT NULL,
    made_us BIGINT NOT NULL,
    matched INTEGER NOT NULL,
    fired INTEGER NOT NULL,
    PRIMARY KEY (name)
)
 WITHOUT ROWID;

CREATE TABLE fault_hits (
    at_us BIGINT NOT NULL,
    fault TEXT NOT NULL,
    do TEXT NOT NULL,
    door TEXT NOT NULL,
    operation TEXT NOT NULL,
    unique_key TEXT
);

CREATE INDEX fault_hits_by_key ON fault_hits (unique_key);

UPDATE alembic_version SET version_num='0006' WHERE alembic_version.version_num = '0005';

-- Running upgrade 0006 -> 0007

ALTER TABLE deliveries ADD COLUMN fault TEXT;

CREATE TABLE held_deliveries (
    held INTEGER NOT NULL,
    release_us BIGINT,
    fault TEXT NOT NULL,
    is_repeat INTEGER NOT NULL,
    record_offset BIGINT NOT NULL,
    parked_offset BIGINT NOT NULL,
    queue_key INTEGER NOT NULL,
    scheme TEXT NOT NULL,
    level INTEGER,
    stored_us BIGINT NOT NULL,
    due_us BIGINT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (held)
);

CREATE INDEX held_deliveries_by_release ON held_deliveries (release_us);

CREATE INDEX held_deliveries_by_record ON held_deliveries (record_offset);

UPDATE alembic_version SET version_num='0007' WHERE alembic_version.version_num = '0006';

-- Running upgrade 0007 -> 0008

ALTER TABLE queues ADD COLUMN emptied_at BIGINT DEFAULT 0 NOT NULL;

ALTER TABLE fault_hits ADD COLUMN next_offset BIGINT DEFAULT 0 NOT NULL;

UPDATE alembic_version SET version_num='0008' WHERE alembic_version.version_num = '0007';

-- Running upgrade 0008 -> 0009

ALTER TABLE messages ADD COLUMN door TEXT;

UPDATE alembic_version SET version_num='0009' WHERE alembic_version.version_num = '0008';

-- Running upgrade 0009 -> 0010

ALTER TABLE fault_hits ADD COLUMN topic TEXT;

ALTER TABLE fault_hits ADD COLUMN group_name TEXT;

ALTER TABLE fault_hits ADD COLUMN to_us BIGINT;

UPDATE alembic_version SET version_num='0010' WHERE alembic_version.version_num = '0009';

-- Running upgrade 0010 -> 0011

ALTER TABLE messages RENAME COLUMN commit_offset TO log_offset;

ALTER TABLE takes RENAME COLUMN commit_offset TO log_offset;

ALTER TABLE timed_messages RENAME COLUMN commit_offset TO log_offset;

ALTER TABLE message_keys RENAME COLUMN commit_offset TO log_offset;

UPDATE counters SET name = 'next_log_offset' WHERE name = 'next_commit_offset';

ALTER TABLE topics RENAME COLUMN particulars TO config;

ALTER TABLE takes RENAME TO receipts;

DROP INDEX takes_open;

CREATE INDEX receipts_open ON receipts (group_name) WHERE settled_us IS NULL;

UPDATE alembic_version SET version_num='0011' WHERE alembic_version.version_num = '0010';

-- Running upgrade 0011 -> 0012

UPDATE deliveries SET scheme = 'directories' WHERE scheme = 'second-directories';

UPDATE held_deliveries SET scheme = 'directories' WHERE scheme = 'second-directories';

UPDATE alembic_version SET version_num='0012' WHERE alembic_version.version_num = '0011';

-- Running upgrade 0012 -> 0013

ALTER TABLE messages ADD COLUMN kind TEXT NOT NULL DEFAULT 'sent';

UPDATE messages SET kind = found FROM (
            SELECT m.log_offset AS place, CASE WHEN topic = 'SCHEDULE_TOPIC_XXXX' AND real_topic LIKE '\%RETRY\%%' ESCAPE '\' THEN 'retried' WHEN topic = 'SCHEDULE_TOPIC_XXXX' THEN 'parked' WHEN topic = 'rmq_sys_wheel_timer' THEN 'held' WHEN topic = 'RMQ_SYS_TRANS_HALF_TOPIC' OR topic LIKE '\%HALF\%%' ESCAPE '\' THEN 'prepared' WHEN topic = 'TRANS_CHECK_MAX_TIME_TOPIC' THEN 'abandoned' WHEN topic LIKE '\%DLQ\%%' ESCAPE '\' THEN 'dead' WHEN parked_offset IS NOT NULL THEN 'delivered' WHEN prepared_offset IS NOT NULL THEN 'committed' END AS found
            FROM (SELECT m.*, q.topic, real.topic AS real_topic FROM messages m
                  JOIN queues q ON q.key = m.queue_key
                  LEFT JOIN queues real ON real.key = m.real_queue_key) m
        ) WHERE log_offset = place AND found IS NOT NULL;

UPDATE messages SET kind = 'cancelled' WHERE log_offset IN (SELECT log_offset FROM timed_messages WHERE outcome = 'cancelled');

UPDATE alembic_version SET version_num='0013' WHERE alembic_version.version_num = '0012';

-- Running upgrade 0013 -> 0014

ALTER TABLE receipts ADD COLUMN attempts TEXT NOT NULL DEFAULT '';

UPDATE alembic_version SET version_num='0014' WHERE alembic_version.version_num = '0013';

-- Running upgrade 0014 -> 0015

CREATE INDEX messages_retried ON messages (queue_key, queue_offset) WHERE kind = 'retried';

UPDATE alembic_version SET version_num='0015' WHERE alembic_version.version_num = '0014';

-- Running upgrade 0015 -> 0016

CREATE TABLE users (
    name TEXT NOT NULL PRIMARY KEY,
    password TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    policies TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;

UPDATE alembic_version SET version_num='0016' WHERE alembic_version.version_num = '0015';

-- Running upgrade 0016 -> 0017

ALTER TABLE queues ADD COLUMN lite_topic TEXT;

UPDATE alembic_version SET version_num='0017' WHERE alembic_version.version_num = '0016';

-- Running upgrade 0017 -> 0018

ALTER TABLE runs ADD COLUMN brokers TEXT DEFAULT '' NOT NULL;

UPDATE alembic_version SET version_num='0018' WHERE alembic_version.version_num = '0017';

