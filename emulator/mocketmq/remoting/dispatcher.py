"""Call the handler of a request, and turn its response or error into an answer."""

import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mocketmq.broker.broker import Broker
from mocketmq.errors import InjectedError, as_emulator_error
from mocketmq.faults.carrying_out import carry_out
from mocketmq.faults.fault import Unanswered
from mocketmq.message.properties import LITE_TOPIC, WITHOUT_EFFECT
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.faulty_request import DOOR, faulty_request, operations
from mocketmq.remoting.guard import Guard
from mocketmq.remoting.lane import Effect, Lane
from mocketmq.remoting.request import LongPoll, RemotingCall, Reply, Request, Response, refused
from mocketmq.remoting.wire.codes import LITE_CODES, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import RemotingError
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

OTHER: Final = "other"
"""The label of unsupported codes beyond the first ``MAX_UNKNOWN``: a client may try them all."""
MAX_UNKNOWN: Final = 100


class Dispatcher:
    """``answered`` counts answers by request code and response code."""

    def __init__(
        self, broker: Broker, settings: Settings, requests: Mapping[int, Request], guard: Guard | None = None
    ) -> None:
        self.answered: Counter[tuple[str, int]] = Counter()
        self._broker = broker
        self._settings = settings
        self._requests = dict(requests)
        self._guard = guard
        self._labels = {code: str(code) for code in requests}
        broker.faults.declare(DOOR, operations(requests))

    def long_poll(self, code: int) -> LongPoll | None:
        """What becomes of a request with this code when too many wait; None if it never waits."""
        request = self._requests.get(code)
        return None if request is None else request.long_poll

    def is_reading(self, code: int) -> bool:
        """Whether a request with this code is of no use once its client has gone."""
        request = self._requests.get(code)
        return request is not None and (request.is_reading or request.long_poll is not None)

    def begin(self, channel: RemotingChannel, command: Command, reply: Reply) -> bool:
        """Begin a plain request on the fast path; ``reply`` is called later.

        False for any other, and while there is a rule for faults. Then nothing was done, and ``answer`` is to
        serve the request, or to say what is wrong with it.
        """
        request = self._requests.get(command.code)
        if request is None or request.fast_path is None or self._broker.faults.of_requests:
            return False
        lane, effect = channel.lane, request.effect
        if effect is not None:
            if not lane.begin(effect):
                return False
            reply = partial(_end_turn, lane, effect, reply)
        try:
            has_begun = request.fast_path(self._call(request, channel, command, may_wait=False), reply)
        except Exception:  # noqa: BLE001 - the handler raises it again
            has_begun = False
        if effect is not None and not has_begun:
            lane.end(effect)
        return has_begun

    async def answer(self, channel: RemotingChannel, command: Command, *, may_wait: bool) -> Command | None:
        """Serve a request and return the answer, also if its sender wants none.

        None if an injected fault drops the answer.
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
        except Exception as error:  # noqa: BLE001 - the client is told of any error
            refusal = as_emulator_error(error)
            response = refused(refusal)
            if isinstance(refusal, InjectedError) and isinstance(refusal.answer, Response):
                given = refusal.answer  # a send that was refused by itself is not stored
                is_stored = given.code == ResponseCode.SUCCESS
                response = given._replace(code=response.code, remark=response.remark) if is_stored else given
        return self.counted(command, response)

    async def _serve_with_faults(
        self, channel: RemotingChannel, command: Command, may_wait: bool
    ) -> Response:
        """Serve it with the fault that strikes it, if any. Raises Unanswered."""
        broker = self._broker
        request = faulty_request(broker.registry.clients, channel, command)
        hit = broker.faults.hit(request)
        serve = partial(self._serve, channel, command, may_wait)
        if hit is None:
            return await serve()
        response = await carry_out(broker.faults, hit, request, serve)
        if hit.fault.rule.do == "twice" and not command.is_oneway:
            channel.send(self.counted(command, response))
        return response

    async def _serve(self, channel: RemotingChannel, command: Command, may_wait: bool) -> Response:
        request = self._requests.get(command.code)
        if request is None:
            raise _unsupported(command.code)
        call = self._call(request, channel, command, may_wait=may_wait)
        lane, effect = channel.lane, request.effect
        if effect is None:
            return await request.handler(call)
        if not lane.begin(effect):
            await lane.turn(effect)
        try:
            return await request.handler(call)
        finally:
            lane.end(effect)

    def _call(
        self, request: Request, channel: RemotingChannel, command: Command, *, may_wait: bool
    ) -> RemotingCall[Any]:
        is_authorized = self._guard is None or self._guard.check(request.access, channel, command)
        header = request.reader.read(command.ext)
        return RemotingCall(self._broker, self._settings, channel, command, header, is_authorized, may_wait)

    def counted(self, command: Command, response: Response) -> Command:
        """Count a response, and make the answer of it."""
        self.answered[self._label(command.code), response.code] += 1
        return command.answer(response.code, response.ext, response.body, response.remark)

    def _label(self, code: int) -> str:
        label = self._labels.get(code)
        if label is None:
            if len(self._labels) >= len(self._requests) + MAX_UNKNOWN:
                return OTHER
            label = self._labels[code] = str(code)
            log.info("a client asks for request code %d, which is not supported", code)
        return label


def _unsupported(code: int) -> RemotingError:
    """The refusal of a request that is not served, in upstream's words, which begin with a space."""
    hint = f"; a lite subscription is refused, as {WITHOUT_EFFECT[LITE_TOPIC]}" if code in LITE_CODES else ""
    return RemotingError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported{hint}")


def _end_turn(lane: Lane, effect: Effect, reply: Reply, command: Command, response: Response) -> None:
    """Answer a request that was begun on the fast path in its turn."""
    lane.end(effect)
    reply(command, response)
