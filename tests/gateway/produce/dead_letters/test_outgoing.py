"""The waiting dead letters that are sent in a request to a broker."""

from penstock.gateway.produce.dead_letters import outgoing as letter_queue
from penstock.gateway.produce.dead_letters.outgoing import CHANNELS, LetterQueue
from penstock.gateway.produce.dead_letters.partition_letters import PartitionLetters, WaitingLetters
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

BATCH = encode_batch([Record(1, None, b"a", ())])
A, B, C = ("t.dead", 0), ("t.dead", 1), ("u.dead", 0)


class Letters:
    """Partitions of a broker, and its queue."""

    def __init__(self, *places):
        self.queue = LetterQueue()
        self.partitions = {}
        self.made = [self.append(place) for place in places]

    def append(self, place, batches=1):
        made = WaitingLetters(None, BATCH * batches, 10.0)
        partition = self.partitions.setdefault(place, PartitionLetters())
        partition.add(made)
        self.queue.add(place, partition)
        return made

    def take(self):
        return {place: list(batch.letters) for place, batch in self.queue.take().items()}

    def release(self, *places):
        """Let the partitions be sent again: their batches are stored."""
        for place in places:
            self.partitions[place].end()
            self.queue.add(place, self.partitions[place])


def test_a_request_has_the_letters_of_each_partition():
    waiting = Letters(A, A, B, C)
    first, second, third, other = waiting.made
    assert waiting.take() == {A: [first, second], B: [third], C: [other]}
    assert waiting.take() == {}
    waiting.release(A, B, C)
    assert waiting.take() == {}


def test_letters_of_a_partition_wait_for_the_response_to_earlier_letters():
    waiting = Letters(A)
    assert waiting.take() == {A: waiting.made}
    more = [waiting.append(A), waiting.append(A)]
    assert waiting.take() == {}
    waiting.release(A)
    assert waiting.take() == {A: more}


def test_a_request_is_bounded_and_partitions_take_turns(monkeypatch):
    monkeypatch.setattr(letter_queue, "REQUEST_BYTES", 3 * len(BATCH))
    waiting = Letters(A, A, B, B, C)
    a, a2, b, b2, c = waiting.made
    assert waiting.take() == {A: [a, a2], B: [b]}
    waiting.release(A, B)
    assert waiting.take() == {C: [c], B: [b2]}


def test_a_joined_batch_is_bounded(monkeypatch):
    monkeypatch.setattr(letter_queue, "JOINED_BYTES", 2 * len(BATCH))
    waiting = Letters(A, A, A)
    a, a2, a3 = waiting.made
    assert waiting.take() == {A: [a, a2]}
    waiting.release(A)
    assert waiting.take() == {A: [a3]}


def test_letters_of_several_batches_are_not_joined():
    waiting = Letters(A, A)
    several, last = waiting.append(A, batches=2), waiting.append(A)
    for expected in (waiting.made, [several], [last]):
        assert waiting.take() == {A: expected}
        waiting.release(A)


def test_letters_that_are_over_are_not_joined():
    waiting = Letters(A, A, A, B)
    a, over, a2, first = waiting.made
    for letters, place in ((over, A), (first, B)):
        waiting.partitions[place].remove(letters)
    assert waiting.take() == {A: [a, a2]}
    waiting.release(A)
    assert waiting.take() == {}


def test_separated_letters_go_one_by_one_before_later_letters():
    waiting = Letters(A, A)
    waiting.take()
    later = waiting.append(A)
    waiting.partitions[A].separate()
    waiting.queue.add(A, waiting.partitions[A])
    for expected in (*waiting.made, later):
        assert waiting.take() == {A: [expected]}
        waiting.release(A)


def test_a_batch_that_is_sent_again_has_the_same_letters_and_goes_first():
    waiting = Letters(A)
    (batch,) = waiting.queue.take().values()
    waiting.append(A)
    waiting.partitions[A].is_busy = False
    waiting.queue.add(A, waiting.partitions[A])
    assert list(waiting.queue.take().values()) == [batch]


def test_a_partition_waits_for_one_broker_only():
    waiting, former = Letters(A), LetterQueue()
    former.add(A, waiting.partitions[A])
    assert waiting.take() == {A: waiting.made}
    waiting.append(A)
    assert former.take() == {}
    assert former.begin() is None


def test_all_letters_of_a_partition_can_be_withdrawn():
    waiting = Letters(A)
    waiting.take()
    behind = waiting.append(A)
    partition = waiting.partitions[A]
    assert partition.withdraw() == [*waiting.made, behind]
    assert not partition.is_ready()
    assert not partition.is_busy


def test_letters_that_are_larger_than_a_request_go_alone(monkeypatch):
    monkeypatch.setattr(letter_queue, "REQUEST_BYTES", 1)
    waiting = Letters(A, B)
    a, b = waiting.made
    assert waiting.take() == {A: [a]}
    assert waiting.take() == {B: [b]}


def test_a_single_request_is_in_flight_unless_it_is_slow():
    queue = (waiting := Letters(A)).queue
    assert LetterQueue().begin() is None, "nothing waits"
    first = queue.begin()
    queue.take()
    waiting.append(B)
    assert queue.begin() is None
    queue.be_slow(first)
    second = queue.begin()
    assert second not in {None, first}
    queue.take()
    waiting.append(C)
    assert not queue.goes_on(first), "the second channel is prompt, and takes the waiting letters"
    queue.end(first)
    assert queue.goes_on(second)


def test_the_number_of_slow_requests_is_bounded():
    queue = Letters(A).queue
    channels = []
    while (channel := queue.begin()) is not None:
        channels.append(channel)
        queue.be_slow(channel)
    assert len(set(channels)) == CHANNELS
    queue.end(channels[1])
    assert queue.begin() == channels[1]


def test_a_slow_channel_continues_if_no_other_channel_is_prompt():
    queue = Letters(A).queue
    channel = queue.begin()
    queue.be_slow(channel)
    assert queue.goes_on(channel)
    assert queue.begin() is None
