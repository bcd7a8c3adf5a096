-- The story that every revision's file tells in its own schema; see test_migrations.py.
INSERT INTO topics VALUES ('SCHEDULE_TOPIC_XXXX', 18, 18, 6, '{}'), ('orders', 1, 1, 6, '{"order":true}');
INSERT INTO queues VALUES (1, 'SCHEDULE_TOPIC_XXXX', 0, 0, 0, 0, NULL), (19, 'orders', 0, 0, 0, 0, NULL);
INSERT INTO groups VALUES ('billing', 3, 2, '{"brokerId":1}');
INSERT INTO runs VALUES (1, 1700000000000000, 1700000000000000, '0.1', 'host', 'exact', 'manual', '1s 5s', 'full', '');
INSERT INTO clock_moves VALUES (1, 1, 1700000000000001, 1700000000000000, 1700000007000000);
INSERT INTO counters VALUES ('next_log_offset', 100), ('keys_indexed_to', 0);
INSERT INTO messages VALUES
 (10, 1, 0, 1700000000000000, 1700000000000000, 'a:1', '127.0.0.1:10911', 0, 0, CAST('delivered' AS BLOB),
  'DELAY' || char(1) || '1' || char(2), 0, 0, 'U1', 1700000001000000, 19, NULL, NULL, 'http', 'parked'),
 (11, 19, 0, 1700000001000000, 1700000000000000, 'a:1', '127.0.0.1:10911', 0, 0, CAST('delivered' AS BLOB),
  'DELAY' || char(1) || '1' || char(2), 0, 0, 'U1', NULL, NULL, 10, NULL, 'http', 'delivered'),
 (12, 19, 1, 1700000002000000, 1700000002000000, 'a:1', '127.0.0.1:10911', 0, 0, CAST('taken' AS BLOB),
  'KEYS' || char(1) || 'k' || char(2), 0, 0, 'U2', NULL, NULL, NULL, NULL, 'http', 'sent'),
 (13, 19, 2, 1700000003000000, 1700000003000000, 'a:1', '127.0.0.1:10911', 0, 0, CAST('fresh' AS BLOB),
  '', 0, 0, 'U3', NULL, NULL, NULL, NULL, 'http', 'sent'),
 (14, 1, 1, 1700000006900000, 1700000006900000, 'a:1', '127.0.0.1:10911', 0, 0, CAST('cancelled' AS BLOB),
  '', 0, 0, 'U4', 1700000007900000, 19, NULL, NULL, 'http', 'parked'),
 (15, 1, 2, 1700000007000000, 1700000007000000, 'a:1', '127.0.0.1:10911', 0, 0, CAST('pending' AS BLOB),
  '', 0, 0, 'U5', 1700000008000000, 19, NULL, NULL, 'http', 'parked');
INSERT INTO delay_offsets VALUES (1, 1);
INSERT INTO interventions VALUES (14, 'cancelled', 1700000007000000);
INSERT INTO deliveries VALUES (11, 1, 10, 'U1', 'orders', 0, 0, 'levels', 1, 1, 9, 0, 1700000000000000,
 1700000000000000, 1700000001000000, 1700000001000000, 1700000001000000, 1700000002000000, 'billing', NULL, NULL);
INSERT INTO progress VALUES ('billing', 19, 2);
INSERT INTO receipts VALUES
 ('billing', 11, 19, 0, 1, 1700000002000000, 1700000002000000, 1700000032000000, 1700000003000000, 'acked', NULL, ''),
 ('billing', 12, 19, 1, 2, 1700000002000000, 1700000004000000, 1700000034000000, NULL, NULL, 1700000004000, '');
INSERT INTO timed_messages VALUES (1700000001500000, 5, 1700000002000, 'delivered', 11);
INSERT INTO request_modes VALUES ('orders', 'billing', 'POP', 0);
INSERT INTO kv_configs VALUES ('ORDER_TOPIC_CONFIG', 'orders', 'broker-a:1');
INSERT INTO faults VALUES ('busy', '{"do":"refuse","error":"SYSTEM_BUSY","topic":"others"}', 1700000000000000, 1, 1);
INSERT INTO fault_hits VALUES (1700000000000000, 'busy', 'refuse', 'remoting', 'send', 'U1', 11, 'orders', NULL, NULL);
INSERT INTO users VALUES ('clerk', 'a secret', 'Normal', 'enable', '[]');
