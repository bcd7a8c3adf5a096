"""Who may ask for what: a rule for each request, held against the accounts (PlainAccessValidator, 4.9.8).

What 4.9.8 does not ask a permission for, because the request is younger or was forgotten there, takes that of
5.3.3's (``DefaultAuthorizationContextBuilder.java``, ``@RocketMQAction``), as far as these accounts know it:
whoever may change topics, groups or settings is an administrator, and whoever may look is anybody with a key.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from mocketmq.access.access import Access
from mocketmq.access.accounts import Need, Permission, group_need, topic_need
from mocketmq.broker.consuming.pops import pop_retry_topic
from mocketmq.errors import AccessError, SignatureError
from mocketmq.message.names import REPLY_TOPIC, retry_topic
from mocketmq.remoting.channel import Channel
from mocketmq.remoting.wire.body import object_of, objects_in, text_in
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.remoting.wire.signature import ACCESS_KEY, is_signed

Needs = Callable[[Command], Iterator[Need]]

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""How refusals begin: with the name of upstream's exception."""


class Rule(NamedTuple):
    """What a request takes beside a key; ``is_open`` ones take not even that."""

    needs: Needs
    is_admin: bool = False
    is_open: bool = False


def _nothing(_command: Command) -> Iterator[Need]:
    return iter(())


def publishes(name: str) -> Rule:
    """To publish to the topic that the ext field names; to its group, if it is a retry topic."""

    def needs(command: Command) -> Iterator[Need]:
        if topic := command.ext.get(name):
            yield topic_need(topic, Permission.PUB)

    return Rule(needs)


def consumes(topic: str | None = None, group: str | None = None) -> Rule:
    """To consume what the ext fields name."""

    def needs(command: Command) -> Iterator[Need]:
        ext = command.ext
        return consumed(ext.get(topic) if topic else None, ext.get(group) if group else None)

    return Rule(needs)


def consumed(topic: str | None, group: str | None) -> Iterator[Need]:
    """To consume the topic as the group; the group's own retry topic takes no more than the group."""
    if group:
        yield group_need(group)
    if topic and not (group and topic == retry_topic(group)):
        yield topic_need(topic, Permission.SUB)


def settled(topic: str | None, group: str | None) -> Iterator[Need]:
    """To settle what the group popped; one of its retries (sheet 6.5) takes the topic of which that is.

    Nothing is read under that name: it may be another group's own.
    """
    if topic and group:
        for separator in "_+":
            topic = topic.removeprefix(pop_retry_topic(group, "", separator))
    return consumed(topic, group)


def _replies(name: str) -> Rule:
    """Anybody with a key may answer, but not store answers where only others may publish."""

    def needs(command: Command) -> Iterator[Need]:
        return iter(()) if command.ext.get(name) == REPLY_TOPIC else publishes(name).needs(command)

    return Rule(needs)


def _heartbeat(command: Command) -> Iterator[Need]:
    for one in objects_in(object_of(command.body), "consumerDataSet"):
        group = text_in(one, "groupName")
        yield group_need(group)
        for subscription in objects_in(one, "subscriptionDataSet"):
            yield from consumed(text_in(subscription, "topic"), group)


def _locks(command: Command) -> Iterator[Need]:
    body = object_of(command.body)
    group = text_in(body, "consumerGroup")
    yield group_need(group)
    for queue in objects_in(body, "mqSet"):
        yield from consumed(text_in(queue, "topic"), group)


def _assignment(command: Command) -> Iterator[Need]:
    body = object_of(command.body)
    return consumed(text_in(body, "topic"), text_in(body, "consumerGroup"))


def _settles(command: Command) -> Iterator[Need]:
    return settled(command.ext.get("topic"), command.ext.get("consumerGroup"))


def _acknowledgements(command: Command) -> Iterator[Need]:
    for one in objects_in(object_of(command.body), "acks"):
        yield from settled(text_in(one, "t"), text_in(one, "c"))


OPEN: Final = Rule(_nothing, is_open=True)
"""As upstream's name server is to everybody."""
KEY: Final = Rule(_nothing)
ADMIN: Final = Rule(_nothing, is_admin=True)
_PULLS: Final = consumes("topic", "consumerGroup")

RULES: Final[Mapping[int, Rule]] = {
    **dict.fromkeys(
        (
            RequestCode.GET_KV_CONFIG,
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            RequestCode.GET_BROKER_CLUSTER_INFO,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            RequestCode.GET_TOPICS_BY_CLUSTER,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            RequestCode.GET_NAMESRV_CONFIG,
        ),
        OPEN,
    ),
    **dict.fromkeys(
        (
            RequestCode.QUERY_CONSUMER_OFFSET,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_BROKER_CONFIG,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            RequestCode.GET_MAX_OFFSET,
            RequestCode.GET_MIN_OFFSET,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            RequestCode.VIEW_MESSAGE_BY_ID,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
            RequestCode.GET_ALL_DELAY_OFFSET,
            RequestCode.CHECK_CLIENT_CONFIG,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_TOPIC_STATS_INFO,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.GET_CONSUME_STATS,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RequestCode.QUERY_CORRECTION_OFFSET,
            RequestCode.VIEW_BROKER_STATS_DATA,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.QUERY_CONSUME_QUEUE,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.QUERY_TOPICS_BY_CONSUMER,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
            RequestCode.GET_TOPIC_CONFIG,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
            RequestCode.POLLING_INFO,
        ),
        KEY,
    ),
    **dict.fromkeys(
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            RequestCode.UPDATE_BROKER_CONFIG,
            RequestCode.PUT_KV_CONFIG,
            RequestCode.DELETE_KV_CONFIG,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER,
            RequestCode.ADD_WRITE_PERM_OF_BROKER,
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            RequestCode.DELETE_TOPIC_IN_BROKER,
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.CLONE_GROUP_OFFSET,
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.UPDATE_NAMESRV_CONFIG,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
            RequestCode.SET_MESSAGE_REQUEST_MODE,
        ),
        ADMIN,
    ),
    RequestCode.SEND_MESSAGE: publishes("topic"),
    RequestCode.SEND_MESSAGE_V2: publishes("b"),
    RequestCode.SEND_BATCH_MESSAGE: publishes("b"),
    RequestCode.SEND_REPLY_MESSAGE: _replies("topic"),
    RequestCode.SEND_REPLY_MESSAGE_V2: _replies("b"),
    RequestCode.END_TRANSACTION: publishes("topic"),
    RequestCode.RECALL_MESSAGE: publishes("topic"),
    RequestCode.PULL_MESSAGE: _PULLS,
    RequestCode.LITE_PULL_MESSAGE: _PULLS,
    RequestCode.UPDATE_CONSUMER_OFFSET: _PULLS,
    RequestCode.POP_MESSAGE: _PULLS,
    RequestCode.PEEK_MESSAGE: _PULLS,
    RequestCode.NOTIFICATION: _PULLS,
    RequestCode.ACK_MESSAGE: Rule(_settles),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Rule(_settles),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _PULLS,
    RequestCode.BATCH_ACK_MESSAGE: Rule(_acknowledgements),
    RequestCode.QUERY_ASSIGNMENT: Rule(_assignment),
    RequestCode.QUERY_MESSAGE: consumes("topic"),
    RequestCode.CONSUMER_SEND_MSG_BACK: consumes(group="group"),
    RequestCode.UNREGISTER_CLIENT: consumes(group="consumerGroup"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: consumes(group="consumerGroup"),
    RequestCode.HEART_BEAT: Rule(_heartbeat),
    RequestCode.LOCK_BATCH_MQ: Rule(_locks),
    RequestCode.UNLOCK_BATCH_MQ: Rule(_locks),
}
"""By the code of the request. One that has none is refused to all but administrators."""


class Guard:
    """Stands before the handlers when access is controlled."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def check(self, channel: Channel, command: Command) -> bool:
        """Let the request pass, or raise RemotingError, with upstream's code and words.

        False: it is open, and comes from somebody who otherwise would not be let in.
        """
        rule = RULES.get(command.code, ADMIN)
        try:
            self._check(rule, _host_of(channel.remote), command)
        except AccessError as error:
            if rule.is_open:
                return False
            raise RemotingError(ResponseCode.SYSTEM_ERROR, f"{_EXCEPTION}{error}") from None
        return True

    def _check(self, rule: Rule, host: str, command: Command) -> None:
        accounts = self._access.accounts
        if accounts.trusts(host):
            return
        account = accounts.find(command.ext.get(ACCESS_KEY))
        if account.trusts(host):
            return
        if not is_signed(command, account.secret):
            raise SignatureError(f"Check signature failed for accessKey={account.access_key}")
        if rule.is_admin:
            account.check_admin(f"request code={command.code}")
        account.check(rule.needs(command))


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
