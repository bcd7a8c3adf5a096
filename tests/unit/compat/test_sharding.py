"""The queue of a sharding key."""

import pytest

from mocketmq.message.properties import java_hash
from mocketmq_compat.aliyun_http.properties import sharded_queue_id


@pytest.mark.parametrize(
    ("key", "code", "queue_id"),
    [
        ("a", 97, 1),
        ("order-1", -1207111310, 2),
        ("", 0, 0),
        ("polygenelubricants", -(1 << 31), 0),  # the absolute value of this hash overflows in Java
    ],
)
def test_queue_is_chosen_by_the_absolute_java_hash(key: str, code: int, queue_id: int) -> None:
    assert java_hash(key) == code
    assert sharded_queue_id(key, 4) == queue_id
    assert sharded_queue_id(key, 1) == 0
