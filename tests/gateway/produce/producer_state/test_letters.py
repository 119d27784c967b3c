"""When the dead letters of batches are stored."""

from penstock.gateway.produce.producer_state.letters import LettersNotStored, Quarantined
from penstock.gateway.produce.producer_state.producer.numbers import Range
from tests.gateway.produce.producer_state.shared_topic import ARRIVAL, KEY, Gateway, Topic


class Letters:
    """The dead letter topic: each attempt to store letters waits for its end."""

    def __init__(self):
        self.attempts = []

    def store(self, letters, positions, callback):
        self.attempts.append((letters, list(positions), callback))

    def end(self, failure=None):
        attempts, self.attempts = self.attempts, []
        for _, _, callback in attempts:
            callback(failure)
        return len(attempts)


class Attempts(Gateway):
    """The attempts of a client with a batch of two records, both of which are bad."""

    def __init__(self):
        super().__init__(Topic())
        self.writes, self.answers, self.letters = [], [], Letters()

    def _keep(self, key, record, done):
        self.writes.append((key, record, done))

    def send(self, connection):
        answers = []
        self.answers.append(answers)
        quarantined = Quarantined([0, 1], b"letters", self.letters.store)
        self.producers.decide(
            KEY, ARRIVAL, 0, Range(0, 2), [0, 1], b"", connection=connection,
            quarantined=quarantined, callback=answers.append,
        )  # fmt: skip

    def write(self):
        """End the first write to the topic of state that has not ended."""
        key, record, done = self.writes.pop(0)
        self.topic.records.append((key, record, self.now))
        self.read()
        done(None)

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
    assert attempts.answers[1] == [None]
