"""The tool for faults has every field of a fault rule."""

import inspect

from mocketmq.faults.rule import FaultRule
from mocketmq.mcp.tools import BrokerTools


def test_every_field_of_a_rule_is_an_argument() -> None:
    arguments = set(inspect.signature(BrokerTools.inject_fault).parameters) - {"self", "kind"}
    assert arguments == set(FaultRule.__struct_fields__) - {"do"}
