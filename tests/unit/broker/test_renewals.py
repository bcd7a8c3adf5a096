from types import SimpleNamespace
from typing import Any

from mocketmq.broker.consuming.expiries import SPARE
from mocketmq.broker.consuming.visibility import Renewals
from mocketmq.invisible_time import RENEWED_US


def test_settled_messages_leave_no_memory() -> None:
    unused: Any = None
    renewals = Renewals(unused, lambda: None)

    def hold(number: int) -> str:
        message: Any = SimpleNamespace(handle=f"handle-{number}", visible_us=RENEWED_US + number)
        renewals.hold("client", lambda: True, "billing", [message])
        return f"handle-{number}"

    hold(0)
    first_us = renewals.next_due_us()
    for number in range(1, 3 * SPARE):
        renewals.drop("billing", [hold(number)])
    assert len(renewals._due) <= SPARE + 2
    assert renewals.next_due_us() == first_us
