"""The settings in a pack: all of them for people, without secrets, and those that a broker takes over.

A broker that is opened from a pack takes over the settings that shape what happens next, such as levels and
limits. Such a broker has its own ports, directory and credentials, and a manual clock.
"""

from collections.abc import Mapping
from typing import Any, Final

from mocketmq import setting_rules as rules
from mocketmq.broker.packs.pack_file import PackError
from mocketmq.duration import format_duration
from mocketmq.errors import SettingError
from mocketmq.rocketmq_versions import version_name
from mocketmq.settings import Setting, Settings
from mocketmq.settings_sources import load_settings
from mocketmq.store.database import MEMORY

MASK: Final = "***"
KEPT: Final = (
    *("brokers", "slaves", "failover", "failover_after", "crash_loses", "name_servers", "proxy_mode"),
    *("profile", "levels", "server_version", "mixed_message_type"),
    *("start_deliver_time", "start_deliver_window", "delay_limits", "timed_scheme"),
    *("auto_create_topics", "auto_create_groups", "topic_queues"),
    *("max_message_bytes", "max_pull_messages", "max_pull_bytes", "max_long_poll", "max_wait"),
    *("recall_levels", "strict_recall", "aliyun_invisible", "aliyun_ordered_invisible"),
    *("transaction_timeout", "transaction_check_interval", "transaction_check_max"),
)
"""Settings that a broker takes from a pack."""
_OF_BROKERS: Final = ("name", "slave_id")
"""Fields of a declared broker that are taken from a pack, unlike ports and addresses."""
_OPENED: Final = {"data": MEMORY, "clock": "manual", "port": "0", "retain_age": "0", "log_level": "warning"}
"""Further settings of a broker opened from a pack, which keeps the messages, however old they are."""


def shown_settings(settings: Settings) -> dict[str, object]:
    """All settings by the names that users give them, as they would write them. Secrets are masked.

    Seeds are left out, because the broker has stored them.
    """
    shown: dict[str, object] = {}
    for name, (field, declared) in Settings.declared.items():
        value = getattr(settings, field)
        if value is not None:
            shown[name] = MASK if declared.is_secret else _as_given(value, field, declared)
    brokers = [
        {name: value for name in _OF_BROKERS if (value := getattr(each, name)) is not None}
        for each in settings.declared_brokers
    ]
    tables = {"topics": settings.topics, "groups": settings.groups, "faults": settings.faults}
    return shown | {"declared_brokers": brokers, **tables}


def _as_given(value: Any, field: str, declared: Setting) -> bool | int | str:
    """The value as a user would write it."""
    if declared.rule is rules.VERSION:
        return version_name(value).removeprefix("V").replace("_", ".")
    if declared.rule is rules.CRASH_LOSS and not isinstance(value, str):
        return format_duration(value)
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    if field.endswith("_us"):
        return format_duration(value)
    given: bool | int | str = value
    return given


def opened_settings(shown: Mapping[str, object], name: str, http_port: int) -> Settings:
    """The settings of a broker that is opened from the pack ``name``. Raises PackError."""
    chosen = {each: shown[each] for each in KEPT if each in shown}
    try:
        own = {**_OPENED, "http_port": http_port}
        return load_settings({**chosen, **own}, {}, broker_tables=shown.get("declared_brokers", ()))
    except SettingError as error:
        raise PackError(
            f"{name} contains settings that this version does not know; use the newer one that made it:"
            f" {error}"
        ) from None
