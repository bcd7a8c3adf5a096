"""``mocketmq probe``, which measures how late a real cluster delivers."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from mocketmq.calling.call import ClusterAccess, ClusterError, NoAnswerError
from mocketmq.cli.cluster_access import access_options
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import EXIT_CODES, at_stop_signals, signals_restored
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.table import Table
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.hosts import split_address
from mocketmq.message.names import check_group_name, check_topic_name
from mocketmq.probe.cluster import ProbedCluster
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import MAX_RATE, Plan, Probing, Progress
from mocketmq.probe.remoting_cluster import RemotingCluster

_COLUMNS = ("level", "delay", ">sent", ">received", ">p50", ">p90", ">p99", ">max")
_LEVELS = (1, 2, 3)
_DELAYS_US = (1 * US_PER_S, 5 * US_PER_S, 10 * US_PER_S)


def _levels(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        levels = tuple(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise click.BadParameter(f"{text!r}; allowed: numbers of delay levels from 1 on, such as 1,2,5")
    return levels


def _delays(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        delays_us = tuple(dict.fromkeys(parse_duration_us(each) for each in text.split(",")))
    except InvalidArgumentError:
        delays_us = ()
    if not delays_us or any(each < US_PER_MS or each % US_PER_MS for each in delays_us):
        raise click.BadParameter(
            f"{text!r}; allowed: durations of whole milliseconds from 1ms on, such as 1s,30s,5m"
        )
    return delays_us


@click.command(
    epilog=examples(
        "probe --name-server 10.0.0.5:9876",
        "probe --name-server 10.0.0.5:9876 --levels 1,5 --out tuesday.csv",
        "probe --grpc 10.0.0.5:8081 --delays 1s,30s,5m --tls-insecure",
        "probe --aliyun-http http://mq.example.com --instance MQ_INST_1_a",
    )
)
@click.option(
    "--name-server",
    "name_servers",
    metavar="HOST:PORT[,…]",
    help="Name server of a cluster to probe over TCP.",
)
@click.option("--grpc", "proxy", metavar="HOST[:PORT]", help="Proxy of RocketMQ 5 to probe over gRPC.")
@click.option("--aliyun-http", "url", metavar="URL", help="Endpoint to probe over Aliyun's HTTP protocol.")
@click.option("--instance", metavar="ID", help="Id of the Aliyun instance, if it has a namespace.")
@click.option("--levels", metavar="1,2,…", callback=_levels, help="Delay levels to measure.")
@click.option(
    "--delays", metavar="1s,30s,…", callback=_delays, help="Delays to measure, of messages with a due time."
)
@click.option(
    "--count",
    "each",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Number of messages of each level and delay.",
)
@click.option(
    "--rate", type=click.IntRange(1, MAX_RATE), default=10, show_default=True, help="Messages a second."
)
@click.option(
    "--size", type=click.IntRange(1, 1 << 16), default=100, show_default=True, help="Size of a body in bytes."
)
@click.option(
    "--topic",
    default="mocketmq-probe",
    show_default=True,
    help="Topic, which over TCP is created if missing.",
)
@click.option(
    "--group",
    default="mocketmq-probe",
    show_default=True,
    help="Group, which over TCP is created if missing.",
)
@click.option(
    "--patience",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Longest wait for overdue messages.",
)
@access_options
@click.option(
    "--security-token", envvar="ROCKETMQ_SECURITY_TOKEN", help="The STS token of a temporary Aliyun key."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="probe.csv",
    show_default=True,
    help="Ledger to write; the file must not exist.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def probe(
    out: Path,
    as_json: bool,
    levels: tuple[int, ...],
    delays: tuple[int, ...],
    patience: str,
    topic: str,
    group: str,
    each: int,
    rate: int,
    size: int,
    **reached_by: Any,
) -> None:
    """Send delayed messages through a real cluster, and write their lateness to a ledger.

    Give one of --name-server, --grpc and --aliyun-http. Without --levels and --delays, the probe measures the
    levels 1,2,3 over TCP, and the delays 1s,5s,10s over other protocols.

    `mocketmq report` reads the ledger, and `mocketmq serve --lateness-from` plays it back. Ctrl-C ends the
    probe, which then writes the messages that have arrived. Topic and group stay on the cluster.
    """
    try:
        check_topic_name(topic)
        check_group_name(group)
        patience_us = parse_duration_us(patience, "--patience")
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    connect = _connecting(**reached_by)
    if not levels and not delays:
        levels, delays = (_LEVELS, ()) if reached_by["name_servers"] else ((), _DELAYS_US)
    if levels and not reached_by["name_servers"]:
        raise click.UsageError("--levels has no effect without --name-server; give --delays")
    plan = Plan(topic, group, levels, delays, each, rate, size, patience_us)
    if out.suffix != ".csv":
        raise click.UsageError(f"--out is {str(out)!r}; allowed: a name that ends in .csv")
    try:
        out.touch(exist_ok=False)  # must fail before anything is sent
    except FileExistsError:
        raise click.UsageError(f"{out} exists: give another name with --out") from None
    except OSError as error:
        raise Failure(f"{out} cannot be written: {error.strerror}", Exit.USAGE) from error
    try:
        with ProgressLine() as progress, signals_restored():
            code, probing = asyncio.run(_run(connect, plan, progress))
        ledger = ProbeLedger(probing)
        if ledger.rows:
            ledger.write(out)
    except ClusterError as error:
        not_ready = isinstance(error, NoAnswerError)
        raise Failure(str(error), Exit.NOT_READY if not_ready else Exit.REFUSED) from error
    finally:
        if not out.stat().st_size:
            out.unlink()
    if ledger.rows:
        summary = ledger.summary()
        Output(as_json).show({"ledger": str(out), **summary}, *_shown(summary, out))
    if code:
        raise click.exceptions.Exit(code)
    if not any(row.delivered_us for row in ledger.rows):
        raise Failure("no delayed message arrived", Exit.NOTHING)


def _connecting(
    name_servers: str | None,
    proxy: str | None,
    url: str | None,
    instance: str | None,
    security_token: str | None,
    access: Callable[..., ClusterAccess],
) -> Callable[[], ProbedCluster]:
    """Return a function that makes the cluster within a running event loop. Raises click.UsageError."""
    if sum(each is not None for each in (name_servers, proxy, url)) != 1:
        raise click.UsageError("give one of --name-server, --grpc and --aliyun-http")
    if instance and url is None:
        raise click.UsageError("--instance has no effect without --aliyun-http")
    reached = access(checks_host=name_servers is None)
    if security_token:
        if url is None or reached.credentials is None:
            raise click.UsageError("--security-token has no effect without --aliyun-http and --access-key")
        credentials = reached.credentials._replace(security_token=security_token)
        reached = reached._replace(credentials=credentials)
    if reached.tls and url is not None and not url.startswith("https://"):
        raise click.UsageError(f"--aliyun-http is {url!r}; allowed with TLS: https://…")
    if name_servers is not None:
        return partial(RemotingCluster, name_servers, reached)
    if proxy is not None:
        from mocketmq.probe.grpc_cluster import GrpcCluster  # noqa: PLC0415 - imports protobuf and grpclib

        _check_port(proxy, "--grpc")
        return partial(GrpcCluster, proxy, reached)
    from mocketmq.probe.aliyun_cluster import AliyunCluster  # noqa: PLC0415 - imports aiohttp

    if url is None or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise click.UsageError(f"--aliyun-http is {url!r}; allowed: http://HOST[:PORT] or https://…")
    return partial(AliyunCluster, url, instance or "", reached)


def _check_port(address: str, option: str) -> None:
    try:
        split_address(address, 0)
    except ValueError:
        raise click.UsageError(f"{option} is {address!r}; allowed: HOST or HOST:PORT") from None


async def _run(connect: Callable[[], ProbedCluster], plan: Plan, progress: Progress) -> tuple[int, Probing]:
    """Probe until all messages have come or a signal arrives. Returns the exit code and the probe."""
    probing = Probing(plan, connect(), progress)
    stop, codes = asyncio.Event(), [0]

    def end(number: int) -> None:
        codes.append(EXIT_CODES[number])
        stop.set()

    at_stop_signals(end)
    await probing.run(stop)
    return codes[-1], probing


def _shown(summary: dict[str, Any], out: Path) -> list[Table | str]:
    delays = [
        (
            each["level"] or "–",
            *map(each.get, ("delay", "sent", "received")),
            *(_ms(each[name]) for name in ("p50_us", "p90_us", "p99_us", "max_us")),
        )
        for each in summary["delays"]
    ]
    parts: list[Table | str] = [
        Table(_COLUMNS, delays),
        f"lateness is accurate to ±{_ms(summary['lateness_error_us'])}",
    ]
    for broker in summary["brokers"]:
        what = f"broker {broker['name']} at {broker['address']}, version {broker['version']}"
        if broker["clock_ahead_us"] is None:
            parts.append(f"{what}: its clock is unknown")
            continue
        ahead_us = broker["clock_ahead_us"]
        side = "ahead of" if ahead_us >= 0 else "behind"
        drifts = ", and drifts" if broker["clock_drifts"] else ""
        parts.append(
            f"{what}: its clock is {_ms(abs(ahead_us))} {side} ours, ±{_ms(broker['clock_error_us'])}{drifts}"
        )
    parts += [f"{count} sends failed: {reason}" for reason, count in summary["failed"].items()]
    parts += summary["notes"]
    parts.append(f"left on the cluster: topic {summary['topic']}, group {summary['group']}")
    parts.append(f"written: {out}; see it with: mocketmq report {out}")
    return parts


def _ms(us: int | None) -> str:
    if us is None:
        return "–"
    return f"{us / US_PER_S:.1f}s" if us >= 10 * US_PER_S else f"{us / US_PER_MS:.1f}ms"
