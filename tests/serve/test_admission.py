"""Who is admitted and who is refused, by a simulated server in simulated time."""

import random
from collections.abc import Sequence

import pytest

from allyouneed.inference.search_plan import Load
from allyouneed.serve.awaiting import Admission
from allyouneed.serve.refusals import Refusal

TOKENS, SPEED, WORKERS = 40, 1_000.0, 2
"""Tokens of a request, and tokens per second of a worker."""
REQUESTS_PER_SECOND = 50
TICK_SECONDS = 0.02
MOST_WAIT_SECONDS = 1.0


class Simulation:
    """Workers that divide their time among their requests, and clients that ask again after each answer."""

    def __init__(self, num_clients: int, speed: float, most_wait_seconds: float = MOST_WAIT_SECONDS) -> None:
        self.now, self.speed = 0.0, speed
        self.answered: list[tuple[float, float]] = []
        """Time of the request, and seconds until the answer."""
        self.refused: list[tuple[float, int, int]] = []
        """Time, seconds until the client comes again, and number of workers that were idle."""
        self._wakes = [0.0] * num_clients
        self._held: list[dict[int, list[float]]] = [{} for _ in range(WORKERS)]
        """For each worker, the number of the client -> time of the request, and tokens left."""
        self._done = self._seconds = 0.0
        self._admission = Admission(65_536, most_wait_seconds, self.load)

    def load(self) -> Load:
        num_held = sum(map(len, self._held))
        num_idle = sum(not held for held in self._held)
        return Load(TOKENS * num_held, int(self._done), self._seconds / WORKERS, num_idle)

    def run(self, seconds: float) -> "Simulation":
        for _ in range(round(seconds / TICK_SECONDS)):
            self.now += TICK_SECONDS
            for client, wake in enumerate(self._wakes):
                if wake <= self.now:
                    self._ask(client)
            for held in self._held:
                self._work(held)
        return self

    def _ask(self, client: int) -> None:
        try:
            self._admission.require_room()
        except Refusal as refusal:
            seconds = int(refusal.headers["Retry-After"])
            self.refused.append((self.now, seconds, self.load().num_idle))
            self._wakes[client] = self.now + seconds
        else:
            min(self._held, key=len)[client] = [self.now, TOKENS]
            self._wakes[client] = float("inf")

    def _work(self, held: dict[int, list[float]]) -> None:
        left = TICK_SECONDS
        while held and left > 0:
            share = min(left * self.speed / len(held), *(tokens for _, tokens in held.values()))
            used = share * len(held) / self.speed
            left, self._seconds, self._done = (
                left - used,
                self._seconds + used,
                self._done + share * len(held),
            )
            for client, request in list(held.items()):
                request[1] -= share
                if request[1] <= 1e-9:
                    self.answered.append((request[0], self.now - request[0]))
                    self._wakes[client] = self.now
                    del held[client]
            if used < 1e-12:
                break


@pytest.fixture(autouse=True)
def drawn() -> None:
    random.seed(1)


@pytest.mark.parametrize("num_clients", [2, 8])
@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_a_wrong_speed_is_forgotten_within_seconds(num_clients: int, factor: float) -> None:
    """The machine was 100 times slower, or faster, while the speed was learned."""
    simulation = Simulation(num_clients, factor * SPEED).run(10)
    simulation.speed = SPEED
    simulation.run(20)
    assert [time for time, *_ in simulation.refused if time > 13] == []
    # Who was refused last comes back in the first seconds; from then on, all are answered in turn.
    late = [seconds for time, seconds in simulation.answered if time > 20]
    assert len(late) / 10 == pytest.approx(REQUESTS_PER_SECOND, rel=0.1)
    assert max(late) < 1.5 * num_clients / REQUESTS_PER_SECOND


@pytest.mark.parametrize("factor", [0.01, 1.0, 100.0])
def test_overload_is_refused_and_who_is_admitted_waits_about_the_maximum(factor: float) -> None:
    simulation = Simulation(200, factor * SPEED).run(5)
    simulation.speed = SPEED
    simulation.run(30)
    late = [seconds for time, seconds in simulation.answered if time > 15]
    assert len(late) / 19 == pytest.approx(REQUESTS_PER_SECOND, rel=0.05)
    assert sum(late) / len(late) == pytest.approx(MOST_WAIT_SECONDS, rel=0.15)
    assert max(late) < 1.5 * MOST_WAIT_SECONDS
    refused_per_second = len([time for time, *_ in simulation.refused if time > 15]) / 20
    # 200 clients are answered 50 times a second after a second, so 50 are in the queue, and 150 wait 2 s.
    assert refused_per_second == pytest.approx(150 / 2, rel=0.1)


@pytest.mark.parametrize("num_clients", [3, 8, 200])
@pytest.mark.parametrize("factor", [0.001, 0.01, 0.1, 1.0])
def test_no_request_is_refused_while_a_worker_is_idle(factor: float, num_clients: int) -> None:
    simulation = Simulation(num_clients, factor * SPEED, most_wait_seconds=0.0).run(5)
    assert simulation.refused
    assert {num_idle for *_, num_idle in simulation.refused} == {0}


def test_no_client_is_sent_away_for_long() -> None:
    simulation = Simulation(200, SPEED).run(5)
    simulation.speed = SPEED / 100
    simulation.run(20)
    refused = [seconds for time, seconds, _ in simulation.refused if time > 10]
    assert set(refused) == {5, 6, 7}


def admission(loads: Sequence[Load]) -> Admission:
    """One that sees the last of the loads, and begins with the first."""
    return Admission(1_000_000, 2.0, lambda: loads[-1])


def is_refused(admission: Admission) -> bool:
    try:
        admission.require_room()
    except Refusal:
        return True
    return False


def test_the_wait_is_that_of_all_work_at_the_speed_of_busy_workers() -> None:
    loads = [Load(0, 0, 0.0, 2)]
    admitting = admission(loads)
    for second in range(1, 60):  # 1,000 tokens in each second of work
        loads.append(Load(1_000, 1_000 * second, float(second), 0))
        assert not is_refused(admitting)
    for num_waiting, refuses in ((1_900, False), (2_100, True)):
        loads.append(loads[-1]._replace(num_waiting=num_waiting))
        assert is_refused(admitting) == refuses
    loads.append(loads[-1]._replace(num_idle=1))
    assert not is_refused(admitting)


def test_texts_that_are_not_queued_yet_wait_and_keep_workers_busy() -> None:
    loads = [Load(0, 0, 0.0, 2)]
    admitting = admission(loads)
    loads.append(Load(10, 1_000, 1.0, 1))
    with admitting.expecting([3_000]) as [queued]:
        assert is_refused(admitting)
        queued()
        queued()  # once is enough
        assert not is_refused(admitting)
    with admitting.expecting([3_000]):
        assert is_refused(admitting)
    assert not is_refused(admitting)


def test_a_server_that_has_not_worked_refuses_only_for_a_full_queue() -> None:
    assert not is_refused(admission([Load(900_000, 0, 0.0, 0)]))
    assert is_refused(admission([Load(1_000_001, 0, 0.0, 2)]))
