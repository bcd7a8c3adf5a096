"""The format of the relay's Kafka messages, and options of its client, tested without a Kafka."""

import ssl
from pathlib import Path

import pytest
from aiokafka.structs import ConsumerRecord

from mocketmq.errors import InvalidArgumentError
from mocketmq.relay.kafka import message
from mocketmq.relay.kafka.message import KafkaMessage, KafkaRecord
from mocketmq.relay.kafka.options import parse_options
from mocketmq.relay.partition import Settled

DUE_US = 1_767_225_600_000_000
HEADERS: list[tuple[str, bytes | None]] = [("trace", b"\xff"), ("RELAY_TOPIC", b"orders"), ("empty", None)]
MESSAGE = KafkaMessage("orders", b"key", None, HEADERS, 1_767_225_590_000)
PENDING = message.pending_of("delayed-3/17", 17, DUE_US, MESSAGE)


def logged(record: KafkaRecord) -> ConsumerRecord:
    """Return the record as the client reads it."""
    return ConsumerRecord(
        record.topic, record.partition, 0, 0, 0, record.key, record.value, None, 0, 0, record.headers
    )


def test_the_log_has_kept_and_settled_messages() -> None:
    records = [
        message.kept(PENDING, "delayed-pending", 3),
        message.position(18, "delayed-pending", 3),
        message.settled(PENDING, "delayed-pending", 3),
        KafkaRecord("delayed-pending", b"of somebody else", b"", (), 3),
        KafkaRecord("delayed-pending", None, b"", (), 3),
    ]
    assert list(message.in_log("delayed-3", map(logged, records))) == [PENDING, Settled(17, DUE_US)]
    assert message.message_in(PENDING) == MESSAGE
    assert (records[1].key, records[1].value) == (message.POSITION_KEY, b"18")


def test_real_topic_gets_the_original_message_with_its_identity() -> None:
    assert message.forwarded(PENDING, MESSAGE) == KafkaRecord(
        "orders",
        b"key",
        None,
        [
            ("trace", b"\xff"),
            ("empty", None),
            ("RELAY_ID", b"delayed-3/17"),
            ("RELAY_SENT_MS", b"1767225590000"),
        ],
    )


def test_refused_message_keeps_its_headers_and_gets_the_reason() -> None:
    record = message.refused("delayed-3/17", "delayed-refused", None, None, HEADERS, "it is wrong")
    assert record == KafkaRecord(
        "delayed-refused",
        None,
        b"",  # the client sends no record that lacks both key and value
        [*HEADERS, ("RELAY_ID", b"delayed-3/17"), ("RELAY_REFUSED", b"it is wrong")],
    )


def test_options_go_to_the_client_classes_supporting_them() -> None:
    account = ["sasl_plain_username=relay", "sasl_plain_password=a=b"]
    given = ["security_protocol=SASL_SSL", *account, "session_timeout_ms=6000", "compression_type=lz4"]
    options = parse_options("k1:9092,k2:9092", given)
    assert isinstance(options.common.pop("ssl_context"), ssl.SSLContext)
    assert options.common == {
        "bootstrap_servers": ["k1:9092", "k2:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_plain_username": "relay",
        "sasl_plain_password": "a=b",
    }
    assert options.group == {"session_timeout_ms": 6000}
    assert options.producer == {"compression_type": "lz4"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nosuch=1", "--kafka-option is 'nosuch=1'; allowed: NAME=VALUE, where NAME is client_id, "),
        ("client_id", "--kafka-option is 'client_id'; allowed: NAME=VALUE, where NAME is client_id, "),
        ("session_timeout_ms=6s", "--kafka-option session_timeout_ms is '6s'; allowed: a whole number"),
        (
            "security_protocol=TLS",
            "--kafka-option security_protocol is 'TLS'; allowed: PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL",
        ),
        (
            "sasl_mechanism=MD5",
            "--kafka-option sasl_mechanism is 'MD5'; allowed: GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            "compression_type=zip",
            "--kafka-option compression_type is 'zip'; allowed: gzip, lz4, snappy, zstd",
        ),
        (
            "security_protocol=SASL_SSL",
            "--kafka-option is 'security_protocol=SASL_SSL'; allowed: this together with sasl_plain_username"
            " and sasl_plain_password",
        ),
        ("ssl_cafile=/no/such/file", "--kafka-option is '/no/such/file'; allowed: files that can be read"),
    ],
)
def test_wrong_option_is_reported(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as wrong:
        parse_options("k1:9092", [text])
    assert str(wrong.value).startswith(sentence)


def test_a_file_without_certificates_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(InvalidArgumentError):
        parse_options("k1:9092", [f"ssl_cafile={tmp_path}/ca.pem"])
