"""What requests to a cluster have in common, whatever their protocol: a time limit, an account, errors."""

from typing import Final, NamedTuple

from mocketmq.errors import EmulatorError

CALL_S: Final = 10.0
"""Real seconds that a request may take, beside what it asks the cluster to wait."""


class ClusterError(EmulatorError):
    """The cluster cannot be used."""


class NoAnswerError(ClusterError):
    """An address cannot be reached, or does not answer."""


class Account(NamedTuple):
    """An access key with its secret, by which requests are signed; Aliyun's temporary ones have a token."""

    access_key: str
    secret: str
    security_token: str = ""
