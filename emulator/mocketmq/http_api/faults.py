"""Faults on purpose: add rules, list them with their counts, end them."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.errors import FaultNotFoundError, InvalidArgumentError
from mocketmq.faults.fault import Fault, State
from mocketmq.faults.rule import FaultRule
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.invalid import invalid_argument
from mocketmq.http_api.route import ApiCall, Route, RouteGroup


class FaultIn(FaultRule, Input, frozen=True):
    """A rule: `do` says what, the other fields where, when and how. See docs/faults.md."""


class FaultOut(FaultRule, frozen=True, kw_only=True):
    """A rule with its counts: `matched` is what fitted, `fired` what it struck.

    `held` counts deliveries that it puts off now, and repeats that are still to come.

    `state` is `waiting` for its time, `active`, `spent` after the last of `next`, or `over`.
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
    """The rule in a table of the settings file. Raises InvalidArgumentError."""
    try:
        return msgspec.convert(table, FaultRule)
    except msgspec.ValidationError as error:
        raise invalid_argument(error, FaultRule, table) from None


async def add_fault(call: ApiCall, _: NoInput, rule: FaultIn) -> FaultOut:
    """Strikes from now on; ends with `DELETE`, or when everything is reset."""
    return _out(call, await call.broker.faults.add(rule), {})


async def faults(call: ApiCall, _: NoInput) -> FaultList:
    """Rules that are spent or over, too."""
    held = await call.broker.held.counts()
    return FaultList([_out(call, fault, held) for fault in call.broker.faults])


async def fault(call: ApiCall, path: FaultPath) -> FaultOut:
    """With its counts."""
    return _out(call, call.broker.faults.get(path.fault), await call.broker.held.counts())


async def delete_fault(call: ApiCall, path: FaultPath) -> FaultOut:
    """What it holds goes on: late answers are sent, connections closed, held messages delivered."""
    held = await call.broker.held.counts()
    return _out(call, (await call.broker.faults.remove(path.fault))[0], held)


async def clear_faults(call: ApiCall, _: NoInput) -> FaultList:
    """Answers with the rules that were ended."""
    held = await call.broker.held.counts()
    return FaultList([_out(call, fault, held) for fault in await call.broker.faults.clear()])


def _out(call: ApiCall, fault: Fault, held: Mapping[str, int]) -> FaultOut:
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


FAULTS = RouteGroup(
    "faults",
    "Faults on purpose",
    [
        Route(
            "POST",
            "/v1/faults",
            add_fault,
            "Let something go wrong",
            FaultOut,
            body=FaultIn,
            status=201,
            errors=[InvalidArgumentError],
        ),
        Route("GET", "/v1/faults", faults, "List the faults", FaultList),
        Route("DELETE", "/v1/faults", clear_faults, "End all faults", FaultList),
        Route(
            "GET",
            "/v1/faults/{fault}",
            fault,
            "Show a fault",
            FaultOut,
            FaultPath,
            errors=[FaultNotFoundError],
        ),
        Route(
            "DELETE",
            "/v1/faults/{fault}",
            delete_fault,
            "End a fault",
            FaultOut,
            FaultPath,
            errors=[FaultNotFoundError],
        ),
    ],
)
