"""The errors that a fault rule can inject, with their form in each protocol.

The names come from RocketMQ's ResponseCode (docs/protocol/remoting.md §7.1), and from the codes of Aliyun's
HTTP protocol (docs/protocol/aliyun.md §1.12). Every protocol can return each error in its own form.
"""

from typing import Final, NamedTuple

from mocketmq.errors import (
    EmulatorError,
    GroupNotFoundError,
    InjectedError,
    InvalidArgumentError,
    MessageNotFoundError,
    NoPermissionError,
    StoreBusyError,
    StoreFullError,
    StoreUnavailableError,
    TopicNotFoundError,
    WireCodes,
)
from mocketmq.suggestion import suggestion_for


class Refusal(NamedTuple):
    """An error, with its codes or its class in mocketmq. With ``is_after``, the message is stored first."""

    form: WireCodes | type[EmulatorError]
    words: str
    is_after: bool = False

    def error(self, fault: str) -> EmulatorError:
        """Make the error, with a message that names the fault."""
        text = f"{self.words} [fault {fault}]"
        return InjectedError(text, self.form) if isinstance(self.form, WireCodes) else self.form(text)


_BUSY: Final = "[REJECTREQUEST]system busy, start flow control for a while"

READ_ONLY: Final = Refusal(NoPermissionError, "the broker[mocketmq] sending message is forbidden")
DISK_FULL: Final = Refusal(StoreFullError, "service not available now: the broker's disk is full")

_REFUSALS: Final = {
    "SYSTEM_ERROR": Refusal(WireCodes(500, 1, "InternalError", 50001), "system error"),
    "SYSTEM_BUSY": Refusal(StoreBusyError, _BUSY),
    "REQUEST_CODE_NOT_SUPPORTED": Refusal(
        WireCodes(501, 3, "InternalError", 50100), "request type not supported"
    ),
    "TRANSACTION_FAILED": Refusal(WireCodes(503, 4, "InternalError", 50001), "the transaction has failed"),
    "FLUSH_DISK_TIMEOUT": Refusal(
        WireCodes(504, 10, "InternalError", 50401), "stored; the disk did not flush in time", is_after=True
    ),
    "SLAVE_NOT_AVAILABLE": Refusal(
        WireCodes(503, 11, "InternalError", 50002), "stored; no slave is available", is_after=True
    ),
    "FLUSH_SLAVE_TIMEOUT": Refusal(
        WireCodes(504, 12, "InternalError", 50402), "stored; the slave did not flush in time", is_after=True
    ),
    "MESSAGE_ILLEGAL": Refusal(WireCodes(400, 13, "InvalidArgument", 50001), "the message is illegal"),
    "SERVICE_NOT_AVAILABLE": Refusal(StoreUnavailableError, "service not available now"),
    "VERSION_NOT_SUPPORTED": Refusal(WireCodes(400, 15, "InvalidArgument", 50001), "version not supported"),
    "NO_PERMISSION": Refusal(NoPermissionError, "no permission"),
    "TOPIC_NOT_EXIST": Refusal(TopicNotFoundError, "topic not exist"),
    "QUERY_NOT_FOUND": Refusal(MessageNotFoundError, "can not find message"),
    "SUBSCRIPTION_PARSE_FAILED": Refusal(
        WireCodes(400, 23, "InvalidArgument", 50001), "parse the consumer's subscription failed"
    ),
    "SUBSCRIPTION_NOT_EXIST": Refusal(
        WireCodes(404, 24, "SubscriptionNotExist", 40403), "the consumer's subscription not exist"
    ),
    "SUBSCRIPTION_NOT_LATEST": Refusal(
        WireCodes(409, 25, "SubscriptionNotExist", 50001), "the consumer's subscription not latest"
    ),
    "SUBSCRIPTION_GROUP_NOT_EXIST": Refusal(GroupNotFoundError, "subscription group not exist"),
    "FILTER_DATA_NOT_EXIST": Refusal(
        WireCodes(404, 27, "SubscriptionNotExist", 50001), "filter data not exist"
    ),
    "FILTER_DATA_NOT_LATEST": Refusal(
        WireCodes(409, 28, "SubscriptionNotExist", 50001), "filter data not latest"
    ),
    "INVALID_PARAMETER": Refusal(WireCodes(400, 29, "InvalidArgument", 40000), "invalid parameter"),
    "CONSUMER_NOT_ONLINE": Refusal(
        WireCodes(404, 206, "InvalidArgument", 50001), "the consumer is not online"
    ),
    "CONSUME_MSG_TIMEOUT": Refusal(WireCodes(504, 207, "InternalError", 50400), "the consumer has timed out"),
    "NO_MESSAGE": Refusal(WireCodes(404, 208, "MessageNotExist", 50001), "no message"),
    "POLLING_FULL": Refusal(WireCodes(503, 209, "QpsLimitExceeded", 42900), "too many long polls wait"),
    "POLLING_TIMEOUT": Refusal(WireCodes(504, 210, "InternalError", 50001), "the long poll has timed out"),
    "ILLEGAL_OPERATION": Refusal(WireCodes(409, 604, "InvalidArgument", 50001), "illegal operation"),
    # Aliyun's codes
    "AccessDenied": Refusal(WireCodes(403, 16, "AccessDenied", 40100), "access denied"),
    "InternalError": Refusal(WireCodes(500, 1, "InternalError", 50001), "internal error"),
    "InvalidAccessKeyId": Refusal(
        WireCodes(403, 1, "InvalidAccessKeyId", 40100), "the access key is unknown"
    ),
    "InvalidArgument": Refusal(WireCodes(400, 1, "InvalidArgument", 40000), "invalid argument"),
    "MessageNotExist": Refusal(WireCodes(404, 1, "MessageNotExist", 50001), "message not exist"),
    "QpsLimitExceeded": Refusal(StoreBusyError, _BUSY),
    "ReceiptHandleError": Refusal(
        WireCodes(409, 604, "ReceiptHandleError", 40013), "the receipt handle is not valid"
    ),
    "SignatureDoesNotMatch": Refusal(
        WireCodes(403, 1, "SignatureDoesNotMatch", 40100), "the signature is wrong"
    ),
    "SubscriptionNotExist": Refusal(GroupNotFoundError, "subscription group not exist"),
    "TimeExpired": Refusal(WireCodes(408, 1, "TimeExpired", 50001), "the request's time is over"),
    "TopicNotExist": Refusal(TopicNotFoundError, "topic not exist"),
}


def refusal_named(name: str, door: str | None = None) -> Refusal:
    """Find an error by name. Raises InvalidArgumentError, which lists protocol ``door``'s names first."""
    found = _REFUSALS.get(name)
    if found is None:
        meant = suggestion_for(name, _REFUSALS)
        guess = f"{meant}? Or one of " if meant else ""
        raise InvalidArgumentError("error", name, f"{guess}{refusal_names(door)}")
    return found


def refusal_names(door: str | None) -> str:
    """All names of errors, beginning with those of protocol ``door``."""
    return ", ".join(sorted(_REFUSALS, key=lambda name: name.isupper() == (door == "aliyun")))
