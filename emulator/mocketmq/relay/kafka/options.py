"""Parses options of the Kafka client from the command line."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from aiokafka.helpers import create_ssl_context

from mocketmq.errors import InvalidArgumentError

_ALL: Final[Mapping[str, type]] = {
    "client_id": str,
    "connections_max_idle_ms": int,
    "metadata_max_age_ms": int,
    "request_timeout_ms": int,
    "retry_backoff_ms": int,
    "sasl_kerberos_domain_name": str,
    "sasl_kerberos_service_name": str,
    "sasl_mechanism": str,
    "sasl_plain_password": str,
    "sasl_plain_username": str,
    "security_protocol": str,
}
_GROUP: Final[Mapping[str, type]] = {
    "group_instance_id": str,
    "heartbeat_interval_ms": int,
    "rebalance_timeout_ms": int,
    "session_timeout_ms": int,
}
_PRODUCER: Final[Mapping[str, type]] = {"compression_type": str, "transaction_timeout_ms": int}
_CHOICES: Final = {
    "compression_type": ("gzip", "lz4", "snappy", "zstd"),
    "sasl_mechanism": ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "security_protocol": ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL"),
}
_TLS: Final = {
    "ssl_cafile": "cafile",
    "ssl_certfile": "certfile",
    "ssl_keyfile": "keyfile",
    "ssl_password": "password",
}
"""Options for TLS files, and the corresponding parameters of aiokafka's helper."""
NAMES: Final = sorted({*_ALL, *_GROUP, *_PRODUCER, *_TLS})


class KafkaOptions(NamedTuple):
    """Arguments for aiokafka: for all its classes, for the group member, and for producers."""

    common: dict[str, Any]
    group: dict[str, Any]
    producer: dict[str, Any]


def parse_options(bootstrap: str, given: Iterable[str]) -> KafkaOptions:
    """Parse texts such as ``security_protocol=SASL_SSL``. Raises InvalidArgumentError."""
    options = KafkaOptions({"bootstrap_servers": bootstrap.split(",")}, {}, {})
    tls: dict[str, str] = {}
    for text in given:
        name, is_one, value = text.partition("=")
        if name in _TLS and is_one:
            tls[_TLS[name]] = value
            continue
        for arguments, kinds in zip(options, (_ALL, _GROUP, _PRODUCER), strict=True):
            if name in kinds and is_one:
                arguments[name] = _typed(name, value, kinds[name])
                break
        else:
            raise InvalidArgumentError(
                "--kafka-option", text, f"NAME=VALUE, where NAME is {', '.join(NAMES)}"
            )
    _check_account(options.common)
    if tls or options.common.get("security_protocol", "").endswith("SSL"):
        try:
            options.common["ssl_context"] = create_ssl_context(**tls)
        except OSError as error:
            allowed = f"files that can be read: {error.strerror or error}"
            raise InvalidArgumentError("--kafka-option", " ".join(tls.values()), allowed) from error
    return options


def _typed(name: str, value: str, kind: type) -> str | int:
    if kind is str:
        if value not in _CHOICES.get(name, (value,)):
            raise InvalidArgumentError(f"--kafka-option {name}", value, ", ".join(_CHOICES[name]))
        return value
    if not value.isascii() or not value.isdigit():
        raise InvalidArgumentError(f"--kafka-option {name}", value, "a whole number")
    return int(value)


def _check_account(common: Mapping[str, Any]) -> None:
    protocol = common.get("security_protocol", "")
    has_account = {"sasl_plain_username", "sasl_plain_password"} <= common.keys()
    if protocol.startswith("SASL") and common.get("sasl_mechanism") != "GSSAPI" and not has_account:
        allowed = "this together with sasl_plain_username and sasl_plain_password"
        raise InvalidArgumentError("--kafka-option", f"security_protocol={protocol}", allowed)
