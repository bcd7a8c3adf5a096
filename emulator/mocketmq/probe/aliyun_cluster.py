"""A cluster over Aliyun's HTTP protocol (docs/protocol/aliyun.md §1).

The service reports when it first handed a message to a consumer of the group, not when the message became
visible. Therefore several polls wait at a time. For a message that becomes visible while no poll waits, the
time until the next poll is part of the error.
"""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import formatdate
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector
from yarl import URL

from mocketmq.calling.call import OPEN_ACCESS, ClusterAccess, ClusterError, NoAnswerError, reason_of
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.message.properties import KEYS, START_DELIVER_TIME
from mocketmq.probe.cluster import Poll, ProbedBroker, ProbedCluster, ReceivedProbe, SentProbe
from mocketmq_compat.aliyun_http.signed_text import sign, string_to_sign

_POLLS: Final = 3
_WAIT_S: Final = 15
_BATCH: Final = 16
_HEADERS: Final = {"x-mq-version": "2015-06-06", "Content-Type": "text/xml;charset=utf-8"}
_NAMESPACE: Final = "http://mq.aliyuncs.com/doc/v1/"

Fields = Mapping[str, str]


class AliyunRefusedError(ClusterError):
    """The service refused a request. ``code`` and text come from the service."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{words} ({code})")
        self.code = code


class _Answer(NamedTuple):
    """The XML document in a response, and the wall-clock times of request and response."""

    document: ET.Element | None
    sent_us: int
    answered_us: int


class AliyunCluster(ProbedCluster):
    """An Aliyun instance at a URL. ``instance`` is its id if it has a namespace."""

    def __init__(
        self,
        url: str,
        instance: str = "",
        access: ClusterAccess = OPEN_ACCESS,
    ) -> None:
        super().__init__()
        self._url = url.rstrip("/")
        self._instance = {"ns": instance} if instance else {}
        self._access = access
        self._session: ClientSession | None = None
        self._topic = self._group = ""
        self._waiting = 0
        self._waited_from_us = 0  # start of the waiting poll

    async def open(self, topic: str, group: str) -> None:
        """Receive once, which fixes the group's start offsets. Raises ClusterError."""
        self._topic, self._group = topic, group
        connector = TCPConnector(ssl=self._access.tls or True)
        self._session = ClientSession(connector=connector, auto_decompress=False)
        self.brokers = [ProbedBroker(urlsplit(self._url).hostname or self._url, self._url)]
        try:
            await self._receive(wait_s=0)
        except AliyunRefusedError as error:
            raise ClusterError(f"group {group} cannot receive from topic {topic}: {error}") from None

    async def send(self, sent: SentProbe, size: int) -> None:
        """Publish the message with its start-deliver time, which is in the past if it has no delay."""
        properties = f"{KEYS}:{sent.key}|{START_DELIVER_TIME}:{sent.due_ms}|"
        body = f"<MessageBody>{'x' * size}</MessageBody><Properties>{properties}</Properties>"
        answer = await self._ask("POST", {}, f'<Message xmlns="{_NAMESPACE}">{body}</Message>')
        sent.sent_us, sent.answered_us, sent.is_stored = answer.sent_us, answer.answered_us, True
        if answer.document is not None:
            sent.message_id = _fields(answer.document).get("MessageId", "")

    def polls(self) -> Sequence[Poll]:
        """Several polls, so that one poll waits while others are being answered."""
        return [self._receive] * _POLLS

    async def _receive(self, wait_s: int = _WAIT_S) -> Sequence[ReceivedProbe]:
        if not self._waiting:
            self._waited_from_us = wall_us()
        self._waiting += 1
        try:
            answer = await self._ask(
                "GET",
                {"consumer": self._group, "numOfMessages": str(_BATCH), "waitseconds": str(wait_s)},
                wait_s=wait_s,
            )
        except AliyunRefusedError as error:
            if error.code == "MessageNotExist":
                return []
            raise
        finally:
            waited_from_us = self._waited_from_us
            self._waiting -= 1
        messages = [_fields(each) for each in answer.document] if answer.document is not None else []
        with suppress(ClusterError):  # the service redelivers the message with the same times
            await self._acknowledge([each["ReceiptHandle"] for each in messages])
        return [
            ReceivedProbe(
                key=_properties(each.get("Properties", "")).get(KEYS, ""),
                at_us=answer.answered_us,
                delivered_ms=int(each["FirstConsumeTime"]),
                stored_ms=int(each["PublishTime"]),
                waited_from_us=waited_from_us,
            )
            for each in messages
        ]

    async def _acknowledge(self, handles: Sequence[str]) -> None:
        inside = "".join(f"<ReceiptHandle>{escape(handle)}</ReceiptHandle>" for handle in handles)
        await self._ask(
            "DELETE",
            {"consumer": self._group},
            f'<ReceiptHandles xmlns="{_NAMESPACE}">{inside}</ReceiptHandles>',
        )

    async def _ask(self, method: str, query: Fields, body: str = "", wait_s: int = 0) -> _Answer:
        """Send a signed request. Raises NoAnswerError, and AliyunRefusedError unless it succeeds."""
        assert self._session is not None  # noqa: S101 - open was called
        target = f"/topics/{self._topic}/messages"
        if given := {**query, **self._instance}:
            target += f"?{urlencode(given)}"
        limit = ClientTimeout(total=self._access.call_s + wait_s)
        url = URL(self._url + target, encoded=True)
        headers = self._signed(method, url.raw_path_qs)
        data = body.encode() or None
        sent_us = wall_us()
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                content, status = await response.read(), response.status
        except TimeoutError:
            raise NoAnswerError(f"{self._url} did not answer") from None
        except (ClientError, OSError) as error:
            cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
            raise NoAnswerError(f"{self._url} cannot be reached: {reason_of(cause)}") from None
        answered_us = wall_us()
        document = self._document(content, status)
        if status not in (200, 201, 204):
            raise _refusal(document, status)
        return _Answer(document, sent_us, answered_us)

    def _signed(self, method: str, target: str) -> dict[str, str]:
        headers = {**_HEADERS, "Date": formatdate(wall_us() / US_PER_S, usegmt=True)}
        if self._access.credentials is not None:
            signature = sign(self._access.credentials.secret, string_to_sign(method, target, headers))
            headers["Authorization"] = f"MQ {self._access.credentials.access_key}:{signature}"
            if self._access.credentials.security_token:
                headers["security-token"] = self._access.credentials.security_token
        return headers

    def _document(self, content: bytes, status: int) -> ET.Element | None:
        try:
            return ET.fromstring(content) if content else None  # noqa: S314 - expat expands no entities without bound
        except ET.ParseError:
            raise ClusterError(
                f"{self._url} does not speak Aliyun's HTTP protocol: its answer ({status}) is not XML"
            ) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _fields(element: ET.Element) -> Fields:
    """The text of each leaf element, by its name without the namespace."""
    return {child.tag.rpartition("}")[2]: child.text or "" for child in element}


def _properties(text: str) -> Fields:
    return dict(pair.split(":", 1) for pair in text.split("|") if ":" in pair)


def _refusal(document: ET.Element | None, status: int) -> AliyunRefusedError:
    if document is None:
        return AliyunRefusedError(f"HTTP {status}", "no reason")
    leaves = _fields(document if document.tag.endswith("Error") else document[0])
    words = {
        "TopicNotExist": "create the topic for scheduled messages, or name another with --topic: ",
        "SubscriptionNotExist": "create the group, or name another with --group: ",
    }
    code = leaves.get("Code") or leaves.get("ErrorCode", f"HTTP {status}")
    return AliyunRefusedError(
        code, words.get(code, "") + (leaves.get("Message") or leaves.get("ErrorMessage", "no reason"))
    )
