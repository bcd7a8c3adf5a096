"""RocketMQ's version numbers, which are ordinals in MQVersion.java, and their names."""

import re
from typing import Final

V3_0_7_SNAPSHOT: Final = 28
V3_0_11: Final = 37
V3_1_8_SNAPSHOT: Final = 62
V3_4_9: Final = 121
V4_0_0: Final = 213
V4_9_8: Final = 409
V5_0_0: Final = 413
V5_2_0: Final = 453
V5_9_9: Final = 611

_OLD_NAMES: Final = {V3_0_11: "V3_0_11", V3_4_9: "V3_4_9"}


def version_name(version: int) -> str:
    """Return the name of a version, or the number as text if it has no name.

    From 4.0.0 on, each version follows its snapshot, and the next minor version follows x.y.9.
    """
    if not V4_0_0 <= version <= V5_9_9:
        return _OLD_NAMES.get(version, str(version))
    steps, is_snapshot = divmod(version - V4_0_0, 2)
    name = "V" + "_".join(str(400 + steps + is_snapshot))
    return f"{name}_SNAPSHOT" if is_snapshot else name


def version_number(name: str) -> int:
    """Return the number of a release such as 5.5.0, from 4.0.0 to 5.9.9. Raises ValueError."""
    if not re.fullmatch(r"[45]\.[0-9]\.[0-9]", name):
        raise ValueError(name)
    return V4_0_0 + 2 * (int(name.replace(".", "")) - 400)
