"""When the dead letters of batches are stored."""

import random

import pytest

from penstock.gateway.produce.producer_state.letters import LettersNotStored, Quarantined
from penstock.gateway.produce.producer_state.producer.numbers import Range
from tests.gateway.produce.producer_state.shared_topic import ARRIVAL, KEY, Gateway, Topic


class Letters:
    """The dead letter topic: each attempt to store letters waits for its end.

    As in the gateway, an attempt with the letters of another that has not ended waits for it.
    """

    def __init__(self):
        self.attempts = []
        self.stored = 0

    def store(self, letters, positions, callback):
        self.attempts.append((letters, list(positions), callback))

    def end(self, failure=None):
        attempts, self.attempts = self.attempts, []
        self.stored += bool(attempts) and failure is None
        for _, _, callback in attempts:
            callback(failure)
        return len(attempts)


class Attempts(Gateway):
    """The attempts of a client with a batch of two records.

    Args:
        bad: The positions of the bad records.
    """

    def __init__(self, bad=(0, 1)):
        super().__init__(Topic())
        self.bad = list(bad)
        self.writes, self.answers, self.letters = [], [], Letters()

    def _keep(self, key, record, done):
        self.writes.append((key, record, done))

    def send(self, connection):
        answers = []
        self.answers.append(answers)
        quarantined = Quarantined(self.bad, b"letters", self.letters.store)

        def answer(failure):
            answers.append(failure)
            if failure is not None:
                self.producers.not_kept(KEY, 0, decided.batch)

        decided = self.producers.decide(
            KEY, ARRIVAL, 0, Range(0, 2), self.bad, b"", connection=connection,
            quarantined=quarantined, callback=answer,
        )  # fmt: skip

    def write(self, failure=None, *, is_there=True):
        """End the first write to the topic of state that has not ended.

        Args:
            failure: Why the gateway takes it for failed.
            is_there: Whether the record is in the topic.
        """
        key, record, done = self.writes.pop(0)
        if is_there:
            self.topic.records.append((key, record, self.now))
            self.read()
        done(failure)

    def write_all(self):
        while self.writes:
            self.write()


def test_letters_are_stored_once_the_decision_is_written():
    attempts = Attempts()
    attempts.send(1)
    assert attempts.letters.attempts == []
    attempts.write()
    assert [letters[:2] for letters in attempts.letters.attempts] == [(b"letters", [0, 1])]
    assert attempts.answers == [[]]
    attempts.letters.end()
    assert attempts.answers == [[]]
    attempts.write()  # nothing is left to store of it: other gateways do not wait for it
    assert attempts.answers == [[None]]


def test_letters_that_are_stored_before_a_retry_is_written_are_not_stored_again():
    attempts = Attempts()
    attempts.send(1)
    attempts.send(2)
    attempts.write()
    assert attempts.letters.end() == 1
    attempts.write_all()
    assert attempts.letters.attempts == []
    assert attempts.answers == [[None], [None]]


def test_a_retry_after_letters_are_stored_does_not_store_them():
    attempts = Attempts()
    attempts.send(1)
    attempts.write()
    attempts.letters.end()
    attempts.send(2)
    attempts.write_all()
    assert attempts.letters.attempts == []
    assert attempts.answers[1] == [None]


def test_letters_that_failed_are_stored_with_the_retry():
    attempts = Attempts()
    attempts.send(1)
    attempts.send(2)
    attempts.write()
    attempts.letters.end("not in time")
    assert isinstance(attempts.answers[0][0], LettersNotStored)
    attempts.write_all()
    assert attempts.letters.end() == 1
    attempts.write_all()
    assert attempts.answers[1] == [None]


@pytest.mark.cases(1)
@pytest.mark.parametrize("bad", [(0, 1), (1,)])
def test_letters_are_stored_once_whatever_comes_in_between(bad):
    """Attempts, writes and stores of letters end in any order, and may fail."""
    for seed in range(3000):
        chance, attempts = random.Random(seed), Attempts(bad)
        for number in range(chance.randrange(1, 12)):
            match chance.randrange(4):
                case 0:
                    attempts.send(number)
                case 1 if attempts.writes:
                    attempts.write(chance.choice([None, "not in time"]), is_there=True)
                case 2 if attempts.writes:
                    attempts.write("refused", is_there=False)
                case 3:
                    attempts.letters.end(chance.choice([None, None, "not in time"]))
        attempts.send(99)
        attempts.write_all()
        attempts.letters.end()
        attempts.write_all()
        assert attempts.letters.stored == 1, seed
        assert attempts.answers[-1] == [None], seed
        assert all(len(answers) == 1 for answers in attempts.answers), seed
