"""Drives Apache's Python client by lines of JSON: commands on stdin, answers and messages on stdout.

The argument has the client's options as JSON. Tests kill the process, because the library waits long for its
threads.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from ctypes import c_void_p
from typing import Any

from rocketmq.client import (
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    RecvMessage,
    SendResult,
    SendStatus,
)
from rocketmq.exceptions import ffi_check
from rocketmq.ffi import MessageModel, _CConsumeStatus, dll

OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
SEND_TIMEOUT_MS: int = OPTIONS.get("send_timeout_ms", 60_000)  # the default is short for a busy machine
SHOWN = ["UNIQ_KEY", "__STARTDELIVERTIME", "REAL_TOPIC", "ORIGIN_MESSAGE_ID", "colour", "price"]
"""Names of properties, because the library reads properties only by name."""

_answers = os.fdopen(os.dup(1), "w")
_answering = threading.Lock()
_producers: dict[str, Producer] = {}
_consumers: dict[str, PushConsumer | PullConsumer] = {}
_released = threading.Event()
"""Set when the test releases the messages that consumers are holding."""


def tell(what: dict[str, Any]) -> None:
    with _answering:
        _answers.write(json.dumps(what) + "\n")
        _answers.flush()


def configured(client: Any) -> Any:
    if address := OPTIONS.get("name_server"):
        client.set_namesrv_addr(address)
    if domain := OPTIONS.get("domain"):
        client.set_namesrv_domain(domain)
    if credentials := OPTIONS.get("credentials"):
        client.set_session_credentials(*credentials, "ALIYUN")
    return client


def producer(group: str = "GID_python") -> Producer:
    if group not in _producers:
        _producers[group] = configured(Producer(group, timeout=SEND_TIMEOUT_MS))
        _producers[group].start()
    return _producers[group]


def made(
    topic: str,
    body: str,
    tag: str | None = None,
    keys: list[str] | None = None,
    delay_level: int | None = None,
    start_deliver_ms: int | None = None,
    properties: dict[str, str] | None = None,
) -> Message:
    message = Message(topic)
    message.set_body(body)
    if tag is not None:
        message.set_tags(tag)
    if keys is not None:
        message.set_keys(" ".join(keys))
    if delay_level is not None:
        message.set_delay_time_level(delay_level)
    if start_deliver_ms is not None:
        message.set_property("__STARTDELIVERTIME", str(start_deliver_ms))
    for name, text in (properties or {}).items():
        message.set_property(name, text)
    return message


def sent(result: SendResult) -> dict[str, Any]:
    return {
        "message_id": result.msg_id,
        "queue_offset": result.offset,
        "is_ok": result.status is SendStatus.OK,
        "status": result.status.name,
    }


def send(**message: Any) -> dict[str, Any]:
    return sent(producer().send_sync(made(**message)))


def send_async(**message: Any) -> dict[str, Any]:
    done: Future[SendResult] = Future()
    producer().send_async(made(**message), done.set_result, done.set_exception)
    return sent(done.result())


def send_oneway(**message: Any) -> None:
    producer().send_oneway(made(**message))


def send_orderly(number: int, **message: Any) -> dict[str, Any]:
    """Send to the queue chosen by the hash of the number."""
    return sent(producer().send_orderly(made(**message), number))


def send_oneway_orderly(number: int, **message: Any) -> None:
    producer().send_oneway_orderly(made(**message), number)


def send_batch(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return sent(producer().send_batch([made(**message) for message in messages]))


def shown(message: RecvMessage) -> dict[str, Any]:
    properties = {name: text(message.get_property(name)) for name in SHOWN}
    return {
        "topic": message.topic,
        "body": text(message.body),
        "tag": text(message.tags) or None,
        "keys": text(message.keys) or None,
        "message_id": message.id,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "times": message.reconsume_times,
        "properties": {name: value for name, value in properties.items() if value},
    }


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def consume(
    group: str,
    topic: str,
    tags: str = "*",
    failures: int = 0,
    orderly: bool = False,
    broadcasting: bool = False,
    member: str | None = None,
    hangs: bool = False,
    threads: int | None = None,
    holding: str | None = None,
) -> None:
    """Listen. One thread keeps the order of messages."""
    model = MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING
    consumer = configured(PushConsumer(group, orderly=orderly, message_model=model))
    # Only the first consumer of an instance name starts at once; a ten-second timer starts the others.
    consumer.set_instance_name(member or group)
    if threads is not None:
        consumer.set_thread_count(threads)

    def on_message(_consumer: c_void_p, handle: c_void_p) -> int:
        message = RecvMessage(handle)
        tell({"member": member or group, "message": shown(message)})
        if text(message.body) == holding:
            _released.wait()
        if hangs:
            threading.Event().wait()
        failed = message.reconsume_times < failures
        return int(_CConsumeStatus.RECONSUME_LATER if failed else _CConsumeStatus.CONSUME_SUCCESS)

    # Does without the library's subscribe(), which fails the message on an exception, and returns anything.
    ffi_check(dll.Subscribe(consumer._handle, topic.encode(), tags.encode()))
    consumer._register_callback(on_message)
    consumer.start()
    _consumers[member or group] = consumer


def pull(group: str, topic: str, tags: str = "*") -> list[dict[str, Any]]:
    """Pull new messages of all queues."""
    if group not in _consumers:
        _consumers[group] = configured(PullConsumer(group))
        _consumers[group].start()
    return [shown(message) for message in _consumers[group].pull(topic, tags)]


def release(body: str) -> None:  # noqa: ARG001 - all are released at once
    _released.set()


def close(member: str) -> None:
    _consumers.pop(member).shutdown()


CALLS: dict[str, Callable[..., object]] = {
    call.__name__: call
    for call in (
        *(send, send_async, send_oneway, send_orderly, send_oneway_orderly, send_batch),
        *(consume, pull, release, close),
    )
}


def main() -> None:
    os.dup2(2, 1)  # keeps output of the library apart from answers
    for line in sys.stdin:
        command = json.loads(line)
        number, call = command.pop("id"), command.pop("call")
        try:
            tell({"id": number, "result": CALLS[call](**command)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
            tell({"id": number, "error": f"{type(error).__name__}: {error}"})
    os._exit(0)


if __name__ == "__main__":
    main()
