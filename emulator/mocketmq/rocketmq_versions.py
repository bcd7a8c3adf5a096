"""Versions of RocketMQ, as their ordinals in MQVersion.java: what clients and brokers say they are."""

from typing import Final

V3_0_7_SNAPSHOT: Final = 28
V3_0_11: Final = 37
V3_1_8_SNAPSHOT: Final = 62
V3_4_9: Final = 121
V4_1_0_SNAPSHOT: Final = 232
V4_9_8: Final = 409
V5_0_0: Final = 413
V5_9_9: Final = 611

_OLD_NAMES: Final = {V3_0_11: "V3_0_11", V3_4_9: "V3_4_9"}


def version_name(version: int) -> str:
    """The name of a version; the number itself if it has none.

    From 4.1.0 on each version follows its snapshot, and after x.y.9 comes the next minor version.
    """
    if not V4_1_0_SNAPSHOT <= version <= V5_9_9:
        return _OLD_NAMES.get(version, str(version))
    steps, is_release = divmod(version - V4_1_0_SNAPSHOT, 2)
    name = "V" + "_".join(str(410 + steps))
    return name if is_release else f"{name}_SNAPSHOT"
