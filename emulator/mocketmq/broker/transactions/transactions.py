"""The parts of transactions, and how they are loaded from the store."""

from dataclasses import dataclass

from mocketmq.broker.consuming.consuming import Consuming
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.sending.intake import Intake
from mocketmq.broker.transactions.check_answers import CheckAnswers
from mocketmq.broker.transactions.check_backs import CheckBacks
from mocketmq.broker.transactions.half_messages import HalfMessages
from mocketmq.broker.transactions.popped_halves import PoppedHalves
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.store import Store


@dataclass(frozen=True)
class Transactions:
    """Half messages: those of Aliyun's HTTP door are popped, the others are asked about."""

    half_messages: HalfMessages
    popped_halves: PoppedHalves
    check_backs: CheckBacks


async def open_transactions(
    store: Store,
    settings: Settings,
    registry: Registry,
    consuming: Consuming,
    intake: Intake,
    schemes: SchemeSet,
    timer: Timer,
) -> Transactions:
    """Load half messages that wait for a decision, and settle those whose commit a kill interrupted."""
    answers = CheckAnswers()
    half_messages = HalfMessages(
        store,
        registry,
        consuming,
        intake,
        schemes,
        answers,
        settings.transaction_timeout_us,
    )
    await half_messages.load()
    check_backs = CheckBacks(
        store,
        registry,
        consuming,
        timer,
        half_messages,
        answers,
        interval_us=settings.transaction_check_interval_us,
        most=settings.transaction_check_max,
    )
    check_backs.load()
    return Transactions(
        half_messages=half_messages,
        popped_halves=PoppedHalves(store, registry, consuming, half_messages),
        check_backs=check_backs,
    )
