"""A group's retry policy, which clients over gRPC follow (GroupRetryPolicy.java, 5.3.3). Times are in ms."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mocketmq.errors import InvalidArgumentError

_Ms = Annotated[int, Meta(ge=0, le=365 * 86_400_000)]


class ExponentialPolicy(msgspec.Struct, frozen=True):
    """A delay that grows from ``initial`` to ``max`` with each attempt."""

    initial: _Ms = 5_000
    max: _Ms = 7_200_000
    multiplier: Annotated[int, Meta(ge=1, le=1_000)] = 2


class CustomizedPolicy(msgspec.Struct, frozen=True):
    """A list of delays."""

    next: Annotated[list[_Ms], Meta(min_length=1, max_length=1_000)] | None = None


class RetryPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """The policy of ``type``; the other one is not used."""

    type: Literal["CUSTOMIZED", "EXPONENTIAL"] = "CUSTOMIZED"
    exponential_retry_policy: ExponentialPolicy | None = None
    customized_retry_policy: CustomizedPolicy | None = None

    @property
    def exponential(self) -> ExponentialPolicy | None:
        """The delays that grow, if the policy has such."""
        return (self.exponential_retry_policy or ExponentialPolicy()) if self.type == "EXPONENTIAL" else None

    @property
    def delays_ms(self) -> list[int] | None:
        """The listed delays; None stands for the delay levels."""
        return self.customized_retry_policy.next if self.customized_retry_policy else None


def retry_policy_of(given: dict[str, Any] | None) -> RetryPolicy:
    """The policy in a group's configuration. Raises InvalidArgumentError."""
    try:
        return msgspec.convert(given or {}, RetryPolicy)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(
            "groupRetryPolicy", given, "a GroupRetryPolicy", f"groupRetryPolicy: {error}"
        ) from None
