"""The memory budget of all clients: which connections are paused, and until when."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.gateway.sessions.memory import (
    FEW_BYTES,
    LOW_USE_BYTES,
    LOW_USE_SHARE,
    READ_BYTES,
    TURN_S,
    UNREAD_S,
    Budget,
    default_budget,
)

MIB = 2**20


class Connection:
    def __init__(self, budget):
        self.budget = budget
        self.held_bytes = 0
        self.missing_bytes = self.remembered_bytes = 0
        self.is_paused = self.has_stalled = self.has_unread = False
        self.is_open = True

    def pause(self, reason):
        assert reason == "memory"
        assert not self.is_paused
        self.is_paused = True

    def resume(self, reason):
        assert reason == "memory"
        self.is_paused = False

    def abort(self):
        self.is_open = False
        self.budget.remove(self)

    def hold(self, held_bytes):
        self.budget.set_held_bytes(self, held_bytes)


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def budget(clock):
    return Budget(10 * MIB, lambda: clock[0])


def connections(budget, count):
    return [Connection(budget) for _ in range(count)]


def test_no_connection_is_paused_within_the_budget(budget):
    first, second = connections(budget, 2)
    first.hold(9 * MIB)
    second.hold(1 * MIB)
    assert not first.is_paused
    assert not second.is_paused
    assert budget.used_bytes == 10 * MIB


def test_beyond_the_budget_connections_that_hold_much_are_paused_and_others_are_not(budget):
    large, another, small = connections(budget, 3)
    large.hold(10 * MIB)
    another.hold(MIB)
    small.hold(LOW_USE_BYTES)
    assert another.is_paused
    assert not small.is_paused
    large.hold(11 * MIB)
    assert large.is_paused


def test_a_connection_that_goes_ahead_is_read_if_its_request_needs_another_response(budget, clock):
    ahead, other = connections(budget, 2)
    other.hold(10 * MIB)
    ahead.missing_bytes = MIB
    ahead.hold(MIB)
    assert not ahead.is_paused
    ahead.missing_bytes = 0  # the first response is whole, and is worked on
    ahead.hold(2 * MIB)
    assert ahead.is_paused
    for held_bytes in (2 * MIB + READ_BYTES, MIB, MIB):
        ahead.missing_bytes = 0
        ahead.hold(2 * MIB)
        ahead.hold(2 * MIB + 1)
        assert ahead.is_paused
        ahead.missing_bytes = MIB
        ahead.hold(held_bytes)
        assert not ahead.is_paused
    clock[0] += 10 * UNREAD_S
    budget.tick()
    budget.look()
    assert ahead.is_open


def test_a_single_connection_goes_ahead_even_if_no_other_waits(budget):
    """Ten clients that in turn left requests of 50 MiB unfinished held 500 MiB."""
    small, *unfinished = connections(budget, 11)
    for large in unfinished:
        for held_bytes in range(READ_BYTES, 5 * MIB, READ_BYTES):
            large.missing_bytes = 5 * MIB - held_bytes
            if not large.is_paused:
                large.hold(held_bytes)
            small.hold(100)  # a batch comes, and is answered
            small.hold(0)
    assert budget.used_bytes < 10 * MIB + 5 * MIB + 10 * READ_BYTES


def test_freed_memory_is_for_waiting_connections_in_turn(budget):
    large, *waiting = connections(budget, 4)
    large.hold(10 * MIB)
    for reader in waiting:
        reader.hold(MIB)
    assert all(reader.is_paused for reader in waiting)
    large.hold(10 * MIB - 2 * MIB - 2 * READ_BYTES)
    assert [reader.is_paused for reader in waiting] == [True, True, True]
    large.hold(10 * MIB - 3 * MIB - 2 * READ_BYTES)
    assert [reader.is_paused for reader in waiting] == [False, False, True]
    large.abort()
    assert not any(reader.is_paused for reader in waiting)
    assert budget.used_bytes == 3 * MIB


def test_a_client_that_reads_no_responses_is_closed_if_others_wait(budget, clock):
    most, less, small = connections(budget, 3)
    most.has_unread = True
    most.hold(8 * MIB)
    clock[0] = UNREAD_S + 1
    budget.tick()
    assert most.is_open  # nobody waits
    less.hold(3 * MIB)
    most.hold(9 * MIB)
    small.hold(10)
    budget.tick()
    assert not most.is_open
    assert less.is_open
    assert not less.is_paused
    clock[0] += 10 * UNREAD_S
    budget.tick()
    assert less.is_open


def test_requests_that_fill_the_budget_together_are_completed_in_turn(budget):
    """Otherwise each would be paused within its request, and wait for the others permanently."""
    size = 5 * MIB
    reading = connections(budget, 20)
    for reader in reading:
        reader.missing_bytes = size
    used = []
    while reading:
        able = [reader for reader in reading if not reader.is_paused]
        assert able
        for reader in able:
            read = min(READ_BYTES, reader.missing_bytes)
            reader.missing_bytes -= read
            reader.hold(reader.held_bytes + read)
            used.append(budget.used_bytes)
            if not reader.missing_bytes:
                reader.hold(0)
                reading.remove(reader)
    assert max(used) < 10 * MIB + size + 20 * READ_BYTES


def test_only_a_single_request_is_read_beyond_the_budget_until_its_response(budget):
    first, second, third = connections(budget, 3)
    third.hold(10 * MIB)
    for reader in (first, second):
        reader.missing_bytes = 5 * MIB
        reader.hold(MIB)
    assert second.is_paused
    first.missing_bytes = 0
    first.hold(6 * MIB)
    assert first.is_paused  # it waits for its verdict
    assert second.is_paused
    first.hold(MIB)
    assert second.is_paused
    first.hold(0)
    assert not second.is_paused
    assert budget.used_bytes == 11 * MIB


def test_a_connection_that_only_caches_topics_after_its_response_blocks_no_other(budget):
    """It is not paused, so it does not forget them: others were not read for half a minute."""
    first, second, third = connections(budget, 3)
    third.hold(9 * MIB)
    first.missing_bytes = 5 * MIB
    first.hold(2 * MIB)
    second.missing_bytes = 5 * MIB
    second.hold(MIB)
    assert second.is_paused
    assert not first.is_paused
    third.hold(7 * MIB - 2 * LOW_USE_BYTES)
    first.missing_bytes = 0
    first.hold(2 * MIB + LOW_USE_BYTES)
    third.hold(9 * MIB)
    assert second.is_paused
    assert not first.is_paused
    first.remembered_bytes = 2 * LOW_USE_BYTES
    first.hold(first.remembered_bytes)
    assert not second.is_paused


def unfinished(budget, count, missing_bytes=50 * MIB):
    made = connections(budget, count)
    for holder in made:
        holder.missing_bytes = missing_bytes
    return made


def test_all_requests_that_have_stalled_are_closed_at_once_if_others_wait(budget):
    stalled, waiting = unfinished(budget, 20), unfinished(budget, 20)
    for holder in stalled:
        holder.hold(100 * 1024)
        holder.has_stalled = True
    budget.look()
    assert all(holder.is_open for holder in stalled)  # there is room for all
    for holder in waiting:
        holder.hold(200 * 1024)
    assert any(holder.is_paused for holder in waiting)
    read = [holder for holder in stalled if not holder.is_paused]
    budget.look()
    assert not any(holder.is_open for holder in read)
    assert all(holder.is_open for holder in waiting)


def test_a_connection_that_is_only_paused_is_never_closed(budget, clock):
    ahead, *paused = unfinished(budget, 30)
    for holder in (ahead, *paused):
        holder.hold(MIB)
    assert any(holder.is_paused for holder in paused)
    clock[0] += 100 * UNREAD_S
    for _ in range(100):
        for holder in (ahead, *paused):
            holder.has_stalled = holder.is_paused
        budget.look()
        budget.tick()
    assert all(holder.is_open for holder in (ahead, *paused))


def test_many_clients_that_begin_at_once_hold_much_one_after_the_other(budget):
    """Otherwise all would hold a part, and none could be completed."""
    readers = unfinished(budget, 400, missing_bytes=MIB)
    for _ in range(16):
        for reader in readers:
            if not reader.is_paused:
                read = min(32 * 1024, budget.readable_bytes(reader))
                reader.missing_bytes -= read
                reader.hold(reader.held_bytes + read)
    assert budget.used_bytes <= 10 * MIB + READ_BYTES + 400 * 3 * FEW_BYTES
    assert sum(reader.held_bytes > READ_BYTES for reader in readers) >= 10


def test_in_shortage_a_few_bytes_are_read_of_those_without_room(budget):
    large, *small = connections(budget, 1001)
    assert budget.readable_bytes(small[0]) == READ_BYTES
    large.hold(10 * MIB)
    for reader in small:
        reader.missing_bytes = MIB
        while not reader.is_paused and reader.held_bytes < MIB:
            reader.hold(reader.held_bytes + budget.readable_bytes(reader))
    ahead = max(small, key=lambda reader: reader.held_bytes)
    beyond = budget.used_bytes - large.held_bytes - ahead.held_bytes
    assert beyond <= 10 * MIB // LOW_USE_SHARE + 1000 * 3 * FEW_BYTES


def test_a_client_whose_requests_were_complete_does_not_wait_behind_all_new_ones(budget):
    known, *new = unfinished(budget, 400, missing_bytes=MIB)
    known.hold(100 * 1024)
    known.missing_bytes = 0
    known.hold(0)
    known.missing_bytes = MIB
    for holder in (*new, known):
        while not holder.is_paused and holder.held_bytes < 200 * 1024:
            holder.hold(holder.held_bytes + min(32 * 1024, budget.readable_bytes(holder)))
    assert known.is_paused
    waiting = [holder for holder in new if holder.is_paused]
    for holder in new:
        if known.is_paused and holder not in waiting:
            holder.abort()
    assert not known.is_paused
    assert len(waiting) - sum(holder.is_paused for holder in waiting) <= 2


def test_a_shortage_is_reported_when_it_begins_and_when_it_ends(budget):
    reported = []
    budget.on_short = reported.append
    large, waiting = connections(budget, 2)
    large.hold(10 * MIB - READ_BYTES)
    assert reported == []
    large.hold(10 * MIB)
    waiting.hold(MIB)
    assert reported == [True]
    large.hold(0)
    waiting.abort()
    assert reported == [True, False]


def test_the_default_is_at_most_a_gibibyte():
    assert 2**26 < default_budget() <= 2**30


def test_connections_that_hold_little_have_a_share_beyond_the_budget(budget):
    """A thousand connections with 63 KiB each would be six times the budget."""
    large, *small = connections(budget, 1001)
    large.hold(10 * MIB)
    for _ in range(63):
        for reader in small:
            if not reader.is_paused:
                reader.hold(reader.held_bytes + 1024)
    assert budget.used_bytes <= 10 * MIB + 10 * MIB // LOW_USE_SHARE + 1000 * 1024
    newcomer = Connection(budget)
    newcomer.hold(1024)
    assert not newcomer.is_paused


def test_connections_that_were_paused_with_little_are_read_again(budget):
    large, *small = connections(budget, 101)
    large.hold(10 * MIB)
    for reader in small:
        reader.hold(60 * 1024)
    paused = [reader for reader in small if reader.is_paused]
    assert paused
    for reader in small:
        if not reader.is_paused:
            reader.hold(0)
    assert large.held_bytes == 10 * MIB
    for reader in paused[: len(paused) // 2]:
        reader.hold(0)
    assert not any(reader.is_paused for reader in small if reader.held_bytes == 0)
    for reader in paused:
        reader.hold(0)
    assert not any(reader.is_paused for reader in small)


def test_within_the_budget_many_connections_may_hold_little(budget):
    small = connections(budget, 150)
    for reader in small:
        reader.hold(60 * 1024)
    assert not any(reader.is_paused for reader in small)


def test_a_paused_connection_that_begins_to_need_bytes_may_go_ahead(budget):
    """Its request was complete; the broker's response, which is collected, is not."""
    large, answered = connections(budget, 2)
    large.hold(10 * MIB)
    answered.hold(MIB)
    assert answered.is_paused
    answered.missing_bytes = 5 * MIB
    answered.hold(MIB + 100)
    assert not answered.is_paused
    another = Connection(budget)
    another.missing_bytes = MIB
    another.hold(MIB)
    assert another.is_paused


class AnyConnections(RuleBasedStateMachine):
    """Connections that read, respond and close at random."""

    def __init__(self):
        super().__init__()
        self.budget = Budget(10 * MIB, lambda: 0.0)
        self.open = connections(self.budget, 6)

    @rule(number=st.integers(0, 5), size=st.integers(1, READ_BYTES))
    def read(self, number, size):
        reader = self.open[number]
        if not reader.is_paused:
            reader.missing_bytes = max(0, reader.missing_bytes - size)
            reader.hold(reader.held_bytes + size)

    @rule(number=st.integers(0, 5), size=st.integers(1, 5 * MIB))
    def begin(self, number, size):
        reader = self.open[number]
        if not reader.is_paused and not reader.missing_bytes:
            reader.missing_bytes = size

    @rule(number=st.integers(0, 5), part=st.floats(0, 1))
    def answer(self, number, part):
        reader = self.open[number]
        reader.hold(int(reader.held_bytes * part))

    @rule(number=st.integers(0, 5))
    def leave(self, number):
        self.open[number].abort()
        self.open[number] = Connection(self.budget)

    @precondition(lambda self: any(reader.is_paused for reader in self.open))
    @rule()
    def every_request_has_its_response(self):
        for reader in self.open:
            reader.missing_bytes = 0
            reader.hold(0)
        assert not any(reader.is_paused for reader in self.open)

    @invariant()
    def held_memory_adds_up(self):
        assert self.budget.used_bytes == sum(reader.held_bytes for reader in self.open)

    @invariant()
    def held_memory_is_bounded(self):
        assert self.budget.used_bytes <= 15 * MIB + 6 * (READ_BYTES + LOW_USE_BYTES)

    @invariant()
    def some_connection_can_continue(self):
        unfinished = [reader for reader in self.open if reader.missing_bytes]
        if all(reader.is_paused for reader in unfinished) and unfinished:
            # Only because what is whole waits for its answer.
            assert any(
                reader.held_bytes > LOW_USE_BYTES and not reader.missing_bytes
                for reader in self.open
            )


TestAnyConnections = AnyConnections.TestCase
TestAnyConnections.pytestmark = [pytest.mark.thorough]
TestAnyConnections.settings = settings(max_examples=60, stateful_step_count=60)


def test_small_clients_that_connect_and_disconnect_do_not_hide_those_that_read_nothing(
    budget, clock
):
    unread, large, small = connections(budget, 3)
    unread.has_unread = True
    unread.hold(11 * MIB)
    large.hold(1 * MIB)
    for _ in range(60):
        clock[0] += 1.0
        small.hold(1_000)
        small.hold(0)
        budget.tick()
    assert not unread.is_open
    assert large.is_open
    assert not large.is_paused


def test_a_request_that_is_read_beyond_the_budget_gives_way_if_it_comes_slowly(budget, clock):
    """Clients that keep just above the least rate had all others wait for as long as they liked."""
    slow = unfinished(budget, 140, missing_bytes=100 * MIB)
    for sender in slow:
        sender.hold(70 * 1024)
    (fast,) = unfinished(budget, 1, missing_bytes=200 * 1024)
    fast.hold(70 * 1024)
    assert fast.is_paused
    turns = 0
    while fast.is_paused:
        reading = [sender for sender in slow if not sender.is_paused]
        for sender in reading:
            sender.hold(sender.held_bytes + 2200)
        clock[0] += TURN_S
        budget.look()
        turns += 1
        assert turns <= len(slow)
    assert all(sender.is_open for sender in slow)
    # One that comes fast does not give way.
    for _ in range(5):
        fast.hold(fast.held_bytes + LOW_USE_BYTES)
        clock[0] += TURN_S
        budget.look()
    assert not fast.is_paused


def test_a_whole_request_beyond_the_budget_whose_response_is_not_read_gives_way(budget, clock):
    """Its client reads a byte a second, so that it is not closed."""
    others, ahead, waiting = unfinished(budget, 3, missing_bytes=MIB)
    others.hold(10 * MIB)
    for holder in (ahead, waiting):
        holder.hold(MIB)
    (unread,) = (holder for holder in (others, ahead, waiting) if not holder.is_paused)
    unread.missing_bytes, unread.has_unread = 0, True
    for _ in range(2):
        unread.hold(unread.held_bytes - 1)
        clock[0] += TURN_S
        budget.look()
    assert (
        sum(not holder.is_paused for holder in (others, ahead, waiting) if holder is not unread)
        == 1
    )
    assert unread.is_open
    assert not unread.is_paused


def test_slow_requests_do_not_give_way_where_too_much_is_held(budget, clock):
    slow = unfinished(budget, 140, missing_bytes=100 * MIB)
    for _ in range(100):
        for sender in slow:
            if not sender.is_paused:
                sender.hold(sender.held_bytes + LOW_USE_BYTES - 1)
        clock[0] += TURN_S
        budget.look()
    (ahead,) = (sender for sender in slow if not sender.is_paused)
    assert ahead.held_bytes > 2 * MIB
    most = 10 * MIB + 10 * MIB // LOW_USE_SHARE
    assert budget.used_bytes - ahead.held_bytes < most + len(slow) * LOW_USE_BYTES


def test_a_connection_is_read_although_many_that_hold_little_have_used_up_the_budget(budget):
    hoarders = unfinished(budget, 200)
    for hoarder in hoarders:
        hoarder.hold(60 * 1024)
        hoarder.has_stalled = True
    (reader,) = unfinished(budget, 1, missing_bytes=MIB)
    reader.hold(100 * 1024)
    assert reader.is_paused
    looks = 0
    while reader.is_paused:
        budget.look()
        looks += 1
    assert looks <= len(hoarders)
