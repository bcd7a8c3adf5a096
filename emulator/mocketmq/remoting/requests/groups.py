"""Lists, creates, changes and deletes consumer groups (docs/protocol/remoting.md §2.9)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq.access.needs import Action
from mocketmq.broker.registry.attributes import GROUP_ATTRIBUTES, changed_attributes
from mocketmq.broker.registry.groups import MAX_RETRIES, PRIORITY_FACTOR, Group, GroupConfig, retry_policy_of
from mocketmq.errors import GroupNotFoundError, InvalidArgumentError, shorten
from mocketmq.remoting.access_rule import ADMIN, KEY, administers, reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests import without_effect
from mocketmq.remoting.requests.topics import data_version
from mocketmq.remoting.wire.body import JsonObject, object_of, objects_in, text_in
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import GroupHeader, NoHeader, RequestHeader


class DeleteGroupHeader(RequestHeader):
    """Clients of 4.x send ``remove_offset``, clients of 5.x ``clean_offset``."""

    group_name: str
    remove_offset: bool = False
    clean_offset: bool = False


class _WantedGroup(NamedTuple):
    """A group in a request. The ``attributes`` of ``config`` are changes; their names begin with + or -."""

    name: str
    max_retries: int
    retry_queues: int
    config: GroupConfig


_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(GroupConfig)}
_EFFECTIVE: Final = {
    "consumeEnable",
    "consumeBroadcastEnable",
    "notifyConsumerIdsChangedEnable",
    "consumeMessageOrderly",  # effective over gRPC
    "groupRetryPolicy",  # effective over gRPC
}


GROUPS: Final = RequestFamily("Consumer groups")


@Request(GROUPS, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, access=ADMIN)
async def create(call: RemotingCall[NoHeader]) -> Response:
    """Create or change a group."""
    return await _put(call, [_group_in(object_of(call.command.body))])


@Request(GROUPS, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, access=ADMIN)
async def create_all(call: RemotingCall[NoHeader]) -> Response:
    """Create or change groups. If one of them is refused, none is changed."""
    body = object_of(call.command.body)
    return await _put(call, list(map(_group_in, objects_in(body, "groupConfigList"))))


@Request(
    GROUPS,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    access=administers(Action.DELETE, group="groupName"),
    effect=Effect.AT_END,
)
async def delete(call: RemotingCall[DeleteGroupHeader]) -> Response:
    """Delete a group. As in RocketMQ, it is no error if the group does not exist."""
    name = call.header.group_name
    is_cleaned = call.header.remove_offset or call.header.clean_offset
    try:
        await call.broker.consuming_groups.delete(name, clean_offsets=is_cleaned)
    except GroupNotFoundError:
        return Response(remark=f"group {shorten(name)} did not exist")
    return Response()


@Request(GROUPS, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, access=KEY, is_for_slaves=True)
async def all_groups(call: RemotingCall[NoHeader]) -> Response:
    """List the settings of all groups."""
    groups = call.broker.registry.groups
    table = {group.name: _config(group) for group in groups}
    return Response(
        body=dumps({"dataVersion": data_version(groups.version), "subscriptionGroupTable": table})
    )


@Request(GROUPS, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, access=reads(group="group"), is_for_slaves=True)
async def one_group(call: RemotingCall[GroupHeader]) -> Response:
    """Return the settings of a group."""
    group = call.broker.registry.groups.find_group(call.header.group)
    if group is None:
        raise RemotingError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return Response(body=dumps(_config(group)))


async def _put(call: RemotingCall[NoHeader], wanted: Sequence[_WantedGroup]) -> Response:
    """Check all groups, then create or change them. The remark names settings without effect in mocketmq."""
    groups = call.broker.registry.groups
    made: dict[str, _WantedGroup] = {}
    for one in wanted:
        groups.check(one.name, one.max_retries, one.retry_queues)
        known = made.get(one.name) or groups.find_group(one.name)
        current = None if known is None else known.config.attributes
        attributes = changed_attributes(GROUP_ATTRIBUTES, current, one.config.attributes)
        made[one.name] = one._replace(config=msgspec.structs.replace(one.config, attributes=attributes))
    for each in made.values():
        await groups.put(*each)
    kept = [(name, one.name) for one in wanted for name in _kept(one.config)]
    return without_effect.success(call, "group setting", kept)


def _kept(config: GroupConfig) -> Iterator[str]:
    """Yield the settings and changes of attributes in a request that have no effect in mocketmq."""
    for name, field in _FIELDS.items():
        if name in _EFFECTIVE:
            continue
        value = getattr(config, field.name)
        if name == "attributes":
            yield from (signed for signed in value if signed[1:] != PRIORITY_FACTOR)
        elif value not in (field.default, None):
            yield name


def _group_in(body: JsonObject) -> _WantedGroup:
    given = {name: body[name] for name in _FIELDS if body.get(name) is not None}
    retries, queues = body.get("retryMaxTimes", MAX_RETRIES), body.get("retryQueueNums", 1)
    for name, value in (("retryMaxTimes", retries), ("retryQueueNums", queues)):
        if not isinstance(value, int):
            raise InvalidArgumentError(name, value, "a whole number")
    try:
        config = msgspec.convert(given, GroupConfig)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError("body", given, "a SubscriptionGroupConfig", f"group: {error}") from None
    retry_policy_of(config.group_retry_policy)  # refuses a policy that clients could not follow
    return _WantedGroup(text_in(body, "groupName"), retries, queues, config)


def _config(group: Group) -> Mapping[str, Any]:
    values = {name: getattr(group.config, field.name) for name, field in _FIELDS.items()}
    values |= {
        "groupName": group.name,
        "retryMaxTimes": group.max_retries,
        "retryQueueNums": group.retry_queues,
    }
    return {name: values[name] for name in sorted(values) if values[name] is not None}
