"""Messages that a relay on RocketMQ accepts, keeps and forwards."""

from mocketmq.message.properties import encode_properties
from mocketmq.relay.judging import Judged
from mocketmq.relay.rocketmq.messages import arrived, pending_of, read_pending, to_keep, to_send
from mocketmq.remoting.wire.record import WireRecord

OF_NEWER_BROKERS = {"_SYS_MSG_PRIORITY_": "9", "__LITE_TOPIC": "chat-1"}
"""Properties by which newer clusters order and divide a topic."""


def record(properties: dict[str, str], body: bytes = b"hello") -> WireRecord:
    """Return a record as a cluster returns it."""
    text, host = encode_properties(properties), "127.0.0.1:10911"
    return WireRecord("later", 0, 7, 70, body, text, 0, 0, 1, host, 2, host, 0, 0, 0)


def test_properties_of_newer_clusters_reach_the_real_topic() -> None:
    given = record({**OF_NEWER_BROKERS, "DELAY": "3", "TAGS": "A"})
    pending = pending_of("b/0/7/2", arrived(given), Judged("orders", 5_000_000))
    kept = to_keep(pending)
    restored = read_pending(record(kept.properties, kept.body))
    assert restored == pending
    topic, message = to_send(pending)
    assert (topic, message.properties) == ("orders", {**OF_NEWER_BROKERS, "TAGS": "A", "RELAY_ID": "b/0/7/2"})
