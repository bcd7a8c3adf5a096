"""Dispatches requests to their handlers, and turns results and errors into responses."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, steady_us
from mocketmq.errors import InjectedError, QueueNotFoundError, as_emulator_error
from mocketmq.faults.injector import Unanswered
from mocketmq.histogram import Histogram
from mocketmq.message.broker_share import BrokerShare
from mocketmq.remoting.access_rule import Guard
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.lane import Effect, Lane
from mocketmq.remoting.queue_numbers import at_broker, numbered
from mocketmq.remoting.request import LongPoll, Reply, Request, refused
from mocketmq.remoting.request_attributes import DOOR, operations, request_attributes
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

RunReply = Callable[[Sequence[Command], Sequence[Response]], None]
"""Sends the responses to a run of requests."""
OTHER: Final = "other"
"""Metrics label of unsupported codes beyond the first ``MAX_UNKNOWN``. A client could try all codes."""
MAX_UNKNOWN: Final = 100


LATENCIES_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
"""Upper bounds of the buckets of latencies (RemotingMetricsManager, 5.3.3)."""


class Served(NamedTuple):
    """A kind of request whose latencies are counted together.

    ``broker`` is the index of the broker that served them; name servers count as the first broker. ``code``
    is the metrics label of the request code, and ``answer`` the response code.
    """

    broker: int
    code: str
    answer: int
    is_oneway: bool
    was_held: bool  # whether the request was held as a long poll


class Dispatcher:
    """Serves all requests. The first one that is not in ``requests`` makes ``load_others`` import the rest.

    ``latencies`` counts the response times in milliseconds. Its keys have the fields of :class:`Served`, but
    are plain tuples, because each request makes one, and named tuples are slower to make.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        requests: Mapping[int, Request],
        load_others: Callable[[], Mapping[int, Request]],
        guard: Guard | None = None,
    ) -> None:
        self.latencies: dict[tuple[int, str, int, bool, bool], Histogram] = {}
        self._broker = broker
        self._settings = settings
        self._requests = dict(requests)
        self._load_others = load_others
        self._has_others = False
        self._is_cluster = len(broker.registry.brokers) > 1
        self._static_topics = broker.registry.topics.static_topics
        self._guard = guard
        self._labels = {code: str(code) for code in requests}
        broker.faults.declare(DOOR, self._operations)

    def _operations(self) -> Iterable[str]:
        self._add_others()
        return operations(self._requests)

    def _add_others(self) -> None:
        if not self._has_others:
            for code, request in self._load_others().items():
                self._requests.setdefault(code, request)
                self._labels.setdefault(code, str(code))
            self._has_others = True  # set last, so that a failed import is repeated

    def _find(self, code: int) -> Request | None:
        request = self._requests.get(code)
        if request is None:
            self._add_others()
            request = self._requests.get(code)
        return request

    @property
    def answered(self) -> Counter[tuple[str, int]]:
        """The number of responses by request code and response code."""
        found: Counter[tuple[str, int]] = Counter()
        for (_, code, answer, *_), latency in self.latencies.items():
            found[code, answer] += latency.count
        return found

    def long_poll(self, code: int) -> LongPoll | None:
        """How to answer a long poll with this code when too many wait; None for other requests."""
        request = self._find(code)
        return None if request is None else request.long_poll

    def is_reading(self, code: int) -> bool:
        """Whether a request with this code can be cancelled when its client disconnects."""
        request = self._find(code)
        return request is not None and (request.is_reading or request.long_poll is not None)

    def runs(self, commands: Sequence[Command]) -> Iterator[Sequence[Command]]:
        """Split the commands of one read into runs for ``begin_run``, and single commands."""
        start, count = 0, len(commands)
        while start < count:
            first, end = commands[start], start + 1
            request = self._requests.get(first.code)
            if request is not None and request.has_runs:
                while end < count and commands[end].code == first.code and commands[end].flag == first.flag:
                    end += 1
            yield commands[start:end]
            start = end

    def begin_run(self, channel: RemotingChannel, commands: Sequence[Command], reply: RunReply) -> bool:
        """Begin plain requests with the same code on the fast path; ``reply`` gets their responses later.

        Returns False, without any effect, for all other requests, while earlier requests keep these waiting,
        and while static topics or fault rules for requests exist. The caller must then call ``answer`` for
        each request, which serves or refuses it.
        """
        request = self._requests.get(commands[0].code)
        if request is None or request.fast_path is None or self._broker.faults.of_requests:
            return False
        if self._static_topics:
            return False
        respond: Reply = partial(reply, commands)
        lane, effect = channel.lane, request.effect
        if effect is not None:
            if not lane.try_begin(effect):
                return False
            respond = partial(_end_turn, lane, effect, respond)
        try:
            calls = [self._call(request, channel, command, may_wait=False) for command in commands]
            has_begun = request.fast_path(calls, respond)
        except Exception:  # noqa: BLE001 - the handler raises the same error
            has_begun = False
        if effect is not None and not has_begun:
            lane.end(effect)
        return has_begun

    async def answer(self, channel: RemotingChannel, command: Command, *, may_wait: bool) -> Command | None:
        """Serve a request and return the response, even if its sender wants none.

        Returns None if an injected fault drops the response.
        """
        try:
            if self._broker.faults.of_requests:
                response = await self._serve_with_faults(channel, command, may_wait)
            else:
                response = await self._serve(channel, command, may_wait)
        except Unanswered as fault:
            if fault.closes:
                channel.hang_up(str(fault))
            return None
        except Exception as error:  # noqa: BLE001 - every error is returned to the client
            response = self._refuse(channel, error)
        was_held = self.long_poll(command.code) is not None and self._broker.polls.has_held
        return self.counted(channel.share, command, response, was_held=was_held)

    def _refuse(self, channel: RemotingChannel, error: Exception) -> Response:
        """Make the response to a failed request.

        ``answer`` must not assign the error to a variable: the error's traceback refers to that variable's
        frame, so the request would stay in memory until the garbage collector runs.
        """
        refusal = as_emulator_error(error)
        if isinstance(refusal, QueueNotFoundError):
            refusal = at_broker(refusal, channel.share)
        response = refused(refusal, self._settings.server_version)
        if isinstance(refusal, InjectedError) and isinstance(refusal.answer, Response):
            given = refusal.answer  # if the handler itself refused the send, keep its refusal
            is_stored = given.code == ResponseCode.SUCCESS
            response = Response(given.ext, given.body, response.code, response.remark) if is_stored else given
        return response

    async def _serve_with_faults(
        self, channel: RemotingChannel, command: Command, may_wait: bool
    ) -> Response:
        """Serve the request with any injected fault applied. Raises Unanswered."""
        broker = self._broker
        request = request_attributes(broker.registry.clients, channel, command)
        injection = broker.faults.injection_for(request)
        serve = partial(self._serve, channel, command, may_wait)
        if injection is None:
            return await serve()
        response = await broker.faults.carry_out(injection, request, serve)
        if injection.fault.rule.do == "twice" and not command.is_oneway:
            channel.send(self.counted(channel.share, command, response))
        return response

    async def _serve(self, channel: RemotingChannel, command: Command, may_wait: bool) -> Response:
        request = self._find(command.code)
        if request is None:
            raise _unsupported(command.code)
        call = self._call(request, channel, command, may_wait=may_wait)
        handler = partial(self._serve_logical, request) if self._static_topics else request.handler
        lane, effect = channel.lane, request.effect
        if effect is None:
            return await handler(call)
        if not lane.try_begin(effect):
            await lane.turn(effect)
        try:
            return await handler(call)
        finally:
            lane.end(effect)

    async def _serve_logical(self, request: Request, call: RemotingCall[Any]) -> Response:
        """Serve a request that may be for a logical queue of a static topic.

        As in RocketMQ, a request with ``lo=false`` names a queue of the broker instead of a logical queue.
        """
        if request.logical is not None and call.command.ext.get("lo") != "false":
            topic = self._static_topics.get(call.header.topic)
            mapping = topic.mapping_at(call.channel.share.position) if topic else None
            if mapping is not None:
                header = request.reader.read(call.command.ext)
                return await request.logical(call.with_header(header), mapping, request.handler)
        return await request.handler(call)

    def _call(
        self, request: Request, channel: RemotingChannel, command: Command, *, may_wait: bool
    ) -> RemotingCall[Any]:
        is_authorized = self._guard is None or self._guard.check(request.access, channel, command)
        values = command.values
        header = request.reader.read(command.ext) if values is None else request.header(*values)
        if self._is_cluster:
            header = numbered(header, channel.share, self._broker.registry.topics)
        return RemotingCall(self._broker, self._settings, channel, command, header, is_authorized, may_wait)

    def counted(
        self, share: BrokerShare, command: Command, response: Response, *, was_held: bool = False
    ) -> Command:
        """Count a response in the metrics of the broker with this share, and make the command to send."""
        self._count(share, command, response.code, was_held=was_held)
        return _answer(command, response)

    def counted_run(
        self, share: BrokerShare, run: Sequence[Command], responses: Sequence[Response]
    ) -> list[Command]:
        """Like ``counted``, for a run of requests."""
        codes = [response.code for response in responses]
        for code in set(codes):
            self._count(share, run[0], code, times=codes.count(code))
        return [_answer(command, response) for command, response in zip(run, responses, strict=True)]

    def _count(
        self, share: BrokerShare, command: Command, code: int, *, was_held: bool = False, times: int = 1
    ) -> None:
        served = (share.position, self._label(command.code), code, command.is_oneway, was_held)
        latency = self.latencies.get(served)
        if latency is None:
            latency = self.latencies[served] = Histogram(LATENCIES_MS)
        latency.record((steady_us() - command.received_us) // US_PER_MS if command.received_us else 0, times)

    def _label(self, code: int) -> str:
        label = self._labels.get(code)
        if label is None:
            if len(self._labels) >= len(self._requests) + MAX_UNKNOWN:
                return OTHER
            label = self._labels[code] = str(code)
            log.info("a client sent request code %d, which is not supported", code)
        return label


def _answer(command: Command, response: Response) -> Command:
    return command.answer(response.code, response.ext, response.body, response.remark)


def _unsupported(code: int) -> RemotingError:
    """The refusal of an unsupported request, in RocketMQ's words, which begin with a space."""
    return RemotingError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")


def _end_turn(lane: Lane, effect: Effect, reply: Reply, responses: Sequence[Response]) -> None:
    """End the turn of a run on the fast path in the lane, and send its responses."""
    lane.end(effect)
    reply(responses)
