import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from allyouneed.training.stop_signals import StopSignals


class ActedAtOnce(Exception):
    pass


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handlers outside that raise, so that a signal that is not caught is seen and ends no test run."""

    def act(number: int, frame: FrameType | None) -> None:
        raise ActedAtOnce(number)

    previous = {number: signal.signal(number, act) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted_and_nothing_else_happens(number: signal.Signals) -> None:
    with StopSignals() as stop:
        assert stop.received is None
        signal.raise_signal(number)
        assert stop.received is number


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_acts_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with StopSignals() as stop:
        signal.raise_signal(first)
        with pytest.raises(ActedAtOnce):
            signal.raise_signal(second)
        assert stop.received is first


@pytest.mark.parametrize(
    ("first", "other"), [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)]
)
def test_where_one_may_come_twice_the_same_signal_again_is_ignored_and_another_acts(
    first: signal.Signals, other: signal.Signals
) -> None:
    with StopSignals(ignore_repeated=True) as stop:
        signal.raise_signal(first)
        signal.raise_signal(first)
        with pytest.raises(ActedAtOnce):
            signal.raise_signal(other)
        assert stop.received is first


def test_the_end_of_a_session_is_noted_unless_it_is_ignored() -> None:
    for handler, noted in ((signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, None)):
        previous = signal.signal(signal.SIGHUP, handler)
        try:
            with StopSignals() as stop:
                for _ in range(2):  # as the end of a session may send it
                    signal.raise_signal(signal.SIGHUP)
                assert stop.received is noted
            assert signal.getsignal(signal.SIGHUP) is handler
        finally:
            signal.signal(signal.SIGHUP, previous)


def test_afterwards_signals_act_as_before() -> None:
    with StopSignals():
        pass
    with pytest.raises(ActedAtOnce):
        signal.raise_signal(signal.SIGTERM)


def test_in_another_thread_it_changes_nothing_as_only_the_main_one_may_have_handlers() -> None:
    received: list[signal.Signals | None] = []

    def train() -> None:
        with StopSignals() as stop:
            received.append(stop.received)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert received == [None]
    with pytest.raises(ActedAtOnce):
        signal.raise_signal(signal.SIGINT)
