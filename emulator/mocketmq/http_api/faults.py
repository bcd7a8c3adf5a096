"""Routes for injected faults: add rules, list them with their counts, remove them."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.errors import FaultNotFoundError, InvalidArgumentError
from mocketmq.faults.injector import FaultInjector, State
from mocketmq.faults.rule import FaultRule
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.invalid import converted
from mocketmq.http_api.route import ApiCall, Route, RouteGroup


class FaultIn(FaultRule, Input, frozen=True):
    """A fault rule: `do` names the fault; the other fields say where, when and how. See docs/faults.md."""


class FaultOut(FaultRule, frozen=True, kw_only=True):
    """A fault rule with its counts.

    `matched` is the number of requests or deliveries that the rule matched, and `fired` the number of faults
    that it injected. `held` is the number of deliveries that the rule holds back now, or will repeat later.
    `state` is `waiting` before the rule's start, `active`, `spent` once the rule has fired `next` times, or
    `over`.
    """

    state: State
    matched: int
    fired: int
    held: int


class FaultList(msgspec.Struct, frozen=True):
    """Rules, oldest first."""

    faults: list[FaultOut]


class FaultPath(Input, frozen=True):
    """The name of a rule."""

    fault: Annotated[str, Meta(min_length=1, max_length=64, description="Name of a rule")]


def rule_of(table: Mapping[str, object]) -> FaultRule:
    """Read a rule from a table of the settings file. Raises InvalidArgumentError."""
    return converted(table, FaultRule)


FAULTS = RouteGroup("faults", "Injected faults")


@Route(FAULTS, "POST /v1/faults", "Add a fault rule", status=201, errors=[InvalidArgumentError])
async def add_fault(call: ApiCall, _: NoInput, rule: FaultIn) -> FaultOut:
    """The rule takes effect at once. A `DELETE`, or a reset of all topics, removes the rule."""
    return _out(call, await call.broker.faults.add_rule(rule), {})


@Route(FAULTS, "GET /v1/faults", "List the fault rules")
async def faults(call: ApiCall, _: NoInput) -> FaultList:
    """Returns all rules, including spent and expired ones."""
    held = await call.broker.held.counts()
    return FaultList([_out(call, fault, held) for fault in call.broker.faults])


@Route(FAULTS, "DELETE /v1/faults", "Remove all fault rules")
async def clear_faults(call: ApiCall, _: NoInput) -> FaultList:
    """Returns the removed rules."""
    held = await call.broker.held.counts()
    return FaultList([_out(call, fault, held) for fault in await call.broker.faults.clear()])


@Route(FAULTS, "GET /v1/faults/{fault}", "Show a fault rule", errors=[FaultNotFoundError])
async def fault(call: ApiCall, path: FaultPath) -> FaultOut:
    """Returns the rule with its counts."""
    return _out(call, call.broker.faults.get(path.fault), await call.broker.held.counts())


@Route(FAULTS, "DELETE /v1/faults/{fault}", "Remove a fault rule", errors=[FaultNotFoundError])
async def delete_fault(call: ApiCall, path: FaultPath) -> FaultOut:
    """Also sends late responses, closes silent connections, and delivers messages that the rule held."""
    held = await call.broker.held.counts()
    return _out(call, (await call.broker.faults.remove_rules(path.fault))[0], held)


def _out(call: ApiCall, fault: FaultInjector, held: Mapping[str, int]) -> FaultOut:
    fields = {name: getattr(fault.rule, name) for name in fault.rule.__struct_fields__}
    fields["name"] = fault.name
    now_us = call.broker.clock.now_us()
    return FaultOut(
        **fields,
        state=fault.state(now_us),
        matched=fault.matched,
        fired=fault.fired,
        held=held.get(fault.name, 0),
    )
