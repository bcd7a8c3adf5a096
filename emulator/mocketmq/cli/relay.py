"""``mocketmq relay``, which delays messages for a real Kafka or RocketMQ."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from mocketmq.calling.call import ClusterAccess
from mocketmq.cli.cluster_access import access_options
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import at_stop_signals, log_to_stderr
from mocketmq.cli.options import examples
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError, SettingError
from mocketmq.message.names import check_group_name, check_topic_name
from mocketmq.ready_file import ReadyFile
from mocketmq.relay.judging import Judge
from mocketmq.relay.partition import Cluster, RelayError, RelayTopics
from mocketmq.relay.relay import Relay, RelayFigures
from mocketmq.relay.shelf import OpenShelf, ShelfScheme, shelves

_QUIET_US: Final = 60 * US_PER_S
_FIGURES_S: Final = 0.5


class Orders(NamedTuple):
    """The options that both kinds of relay share."""

    topics: RelayTopics
    group: str
    judge: Judge
    scheme: ShelfScheme
    data: Path | None
    ready_file: str | None


def _orders(
    topic: str,
    group: str,
    pending_topic: str | None,
    refused_topic: str | None,
    scheme: ShelfScheme,
    data: Path | None,
    longest: str,
    json_bodies: str | None,
    ready_file: str | None,
) -> Orders:
    """Check the common options. Raises click.UsageError."""
    try:
        longest_us = parse_duration_us(longest, "--longest")
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    try:
        zone = None if json_bodies is None else ZoneInfo(json_bodies)
    except (ZoneInfoNotFoundError, ValueError):
        allowed = "a time zone such as UTC or Asia/Shanghai"
        raise click.UsageError(f"--json-bodies is {json_bodies!r}; allowed: {allowed}") from None
    topics = RelayTopics(topic, pending_topic or f"{topic}-pending", refused_topic or f"{topic}-refused")
    if len(set(topics)) < len(topics):
        raise click.UsageError(
            "--topic, --pending-topic and --refused-topic must name three different topics"
        )
    return Orders(topics, group, Judge(longest_us, topics, zone), scheme, data, ready_file)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that both kinds of relay share."""
    for option in reversed(
        (
            click.option("--topic", required=True, help="Topic of delayed messages."),
            click.option(
                "--group",
                default="mocketmq-relay",
                show_default=True,
                help="Group of all relays of the topic.",
            ),
            click.option("--pending-topic", help="Topic of pending messages.  [default: TOPIC-pending]"),
            click.option("--refused-topic", help="Topic for refused messages.  [default: TOPIC-refused]"),
            click.option(
                "--scheme",
                type=click.Choice(get_args(ShelfScheme)),
                default="slots",
                show_default=True,
                help="The delay scheme that holds pending messages; sorted needs the extra of this name.",
            ),
            click.option(
                "--data",
                type=click.Path(file_okay=False, path_type=Path),
                help="Folder for pending messages, used by no other relay.  [default: a temporary one]",
            ),
            click.option(
                "--longest", default="400d", show_default=True, metavar="TIME", help="Longest delay."
            ),
            click.option(
                "--json-bodies",
                is_flag=False,
                flag_value="UTC",
                metavar="[ZONE]",
                help="Accept topic and due time in JSON bodies; ZONE applies to times without a time zone.",
            ),
            click.option(
                "--ready-file",
                metavar="FILE",
                help="File that names the partitions, as JSON; it exists while the relay is ready.",
            ),
        )
    ):
        command = option(command)
    return command


@click.group(
    epilog=examples(
        "relay kafka --bootstrap 10.0.0.5:9092 --topic delayed",
        "relay rocketmq --name-server 10.0.0.5:9876 --topic delayed",
    )
)
def relay() -> None:
    """Receive delayed messages from a topic of a real broker, and forward them when due.

    Each message names its real topic in RELAY_TOPIC, and its due time in
    __STARTDELIVERTIME or RELAY_DELAY_MS. Several relays of one group share the
    work. The broker keeps the pending messages, so any relay can take over.
    """


@relay.command(
    epilog=examples(
        "relay kafka --bootstrap 10.0.0.5:9092 --topic delayed",
        "relay kafka --bootstrap k1:9093 --topic delayed --scheme memory",
        "relay kafka --bootstrap k:9093 --topic d --kafka-option client_id=a",
    )
)
@click.option("--bootstrap", required=True, metavar="HOST:PORT[,…]", help="Brokers to connect to first.")
@_common
@click.option(
    "--kafka-option",
    "kafka_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the client aiokafka, such as security_protocol=SSL.",
)
def kafka(bootstrap: str, kafka_options: tuple[str, ...], **common: Any) -> None:
    """Run a relay for Kafka, which forwards each message exactly once.

    It runs until Ctrl-C or SIGTERM, and creates missing topics for pending and
    refused messages.
    """
    orders = _orders(**common)
    try:
        from mocketmq.relay.kafka.cluster import KafkaCluster  # noqa: PLC0415 - needs an extra
        from mocketmq.relay.kafka.options import parse_options  # noqa: PLC0415
    except ImportError as error:
        reason = f"{error.name} is not installed: install mocketmq with its extra 'relay'"
        raise Failure(reason, Exit.USAGE) from error
    try:
        options = parse_options(bootstrap, kafka_options)
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    run_relay(orders, lambda: KafkaCluster(orders.group, orders.topics, options, orders.judge))


@relay.command(
    epilog=examples(
        "relay rocketmq --name-server 10.0.0.5:9876 --topic delayed",
        "relay rocketmq --name-server n:9876 --topic d --tls-ca ca.pem",
    )
)
@click.option(
    "--name-server",
    "name_servers",
    required=True,
    metavar="HOST:PORT[,…]",
    help="Name servers of the cluster.",
)
@_common
@click.option(
    "--carry-after",
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Rewrite messages that have been pending for this long; must be well below the brokers' retention.",
)
@click.option(
    "--lock-time",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long brokers keep the lock of a queue: their rebalance.maxLiveTime, or less.",
)
@access_options
def rocketmq(
    name_servers: str,
    carry_after: str,
    lock_time: str,
    access: Callable[[], ClusterAccess],
    **common: Any,
) -> None:
    """Run a relay for RocketMQ 4 and 5, which forwards each message at least once.

    It runs until Ctrl-C or SIGTERM, and creates missing topics and a missing group.
    """
    from mocketmq.relay.rocketmq.cluster import RocketCluster  # noqa: PLC0415 - not for Kafka

    orders = _orders(**common)
    try:
        for topic in orders.topics:
            check_topic_name(topic)
        check_group_name(orders.group)
        carry_after_us = parse_duration_us(carry_after, "--carry-after")
        lock_us = parse_duration_us(lock_time, "--lock-time")
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    if lock_us < US_PER_S:
        raise click.UsageError(f"--lock-time is {lock_time!r}; allowed: 1s or longer")
    connect = partial(
        RocketCluster,
        *(name_servers, orders.topics, orders.group, orders.judge),
        carry_after_us=carry_after_us,
        lock_us=lock_us,
        access=access(),
    )
    run_relay(orders, connect)


def run_relay(orders: Orders, connect: Callable[[], Cluster[Any]]) -> None:
    """Run a relay until a signal arrives. ``connect`` makes the cluster within the running event loop."""
    log_to_stderr()
    for handler in logging.getLogger().handlers:
        handler.addFilter(_once_a_minute({}))
    with ExitStack() as stack:
        try:
            open_shelf = stack.enter_context(shelves(orders.scheme, orders.data))
            progress = stack.enter_context(ProgressLine())
            asyncio.run(_run(connect, open_shelf, orders.ready_file, progress))
        except SettingError as error:
            raise Failure(str(error).replace("setting ready_file", "--ready-file"), Exit.USAGE) from error
        except OSError as error:
            raise Failure(f"--data cannot be used: {error}", Exit.NOT_STARTED) from error
        except RelayError as error:
            raise Failure(str(error), Exit.NOT_READY) from error


async def _run(
    connect: Callable[[], Cluster[Any]], open_shelf: OpenShelf, ready: str | None, progress: ProgressLine
) -> None:
    stop = asyncio.Event()
    ready_file = ReadyFile(ready) if ready else None
    refusals: list[SettingError] = []

    def tell(names: Sequence[str], pending: int) -> None:
        try:
            if ready_file is not None:
                ready_file.write({"partitions": names})
        except SettingError as error:
            refusals.append(error)
            stop.set()
        else:
            click.echo(_served(names, pending))

    relay = Relay(connect(), open_shelf, tell)
    at_stop_signals(lambda _: stop.set())
    showing = asyncio.create_task(_show(relay, progress))
    try:
        await relay.run(stop)
    finally:
        showing.cancel()
        if ready_file is not None:
            ready_file.remove_file()
    for refusal in refusals:
        raise refusal
    figures = relay.figures()
    click.echo(f"stopped: {figures.kept} kept, {figures.forwarded} forwarded, {figures.refused} refused")


async def _show(relay: Relay[Any], progress: ProgressLine) -> None:
    while True:
        progress(_shown(relay.figures()), 0, None)
        await asyncio.sleep(_FIGURES_S)


def _served(names: Sequence[str], pending: int) -> str:
    if not names:
        return "serving no partition: other relays serve them all"
    count = f"{len(names)} partition{'' if len(names) == 1 else 's'}"
    return f"serving {count} ({', '.join(names)}), {pending} pending"


def _shown(figures: RelayFigures) -> str:
    late = "" if figures.lateness_us is None else f", the last {figures.lateness_us // US_PER_MS} ms late"
    return f"{figures.pending} pending, {figures.forwarded} forwarded{late}, {figures.refused} refused"


def _once_a_minute(said_us: dict[object, int]) -> Callable[[logging.LogRecord], bool]:
    """Make a log filter that lets each repeated line of the Kafka client through only once a minute."""

    def passes(record: logging.LogRecord) -> bool:
        if record.name == "asyncio" and record.exc_info and record.exc_info[0]:
            # A failed transaction leaves futures with unretrieved errors, each of which asyncio would log.
            return not record.exc_info[0].__module__.startswith("aiokafka")
        if not record.name.startswith("aiokafka"):
            return True
        now_us = steady_us()
        is_new = now_us - said_us.get(record.msg, -_QUIET_US) >= _QUIET_US
        if is_new:
            said_us[record.msg] = now_us
        return is_new

    return passes
