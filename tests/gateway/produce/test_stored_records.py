"""Good records count in the share of bad records when the broker has stored them."""

import pytest

from penstock.engine.verdict import ACCEPTED
from penstock.gateway.produce.bad_shares import BAD_MIN
from tests.gateway.produce.quarantining import DESCRIBE, WRITE, Quarantine, diverted
from tests.gateway.produce.quarantining import batch as plain
from tests.gateway.produce.rights import answer_of, checked, looked_up
from tests.gateway.sessions.talk import produce_response


class TestShares:
    """`penstock.quarantine.max.ratio`"""

    def quarantine(self, **options):
        return checked(Quarantine(max_ratio="0.1", **options))

    def bad(self, talk, number, good=1, acks=1):
        """Send a batch with one bad record."""
        sent = [b"good"] * good + [b"bad"]
        talk.produce(number, plain(*sent), acks=acks)
        talk.decide(diverted(plain(*sent[:good]) if good else b"", good))

    def store(self, talk, number):
        if talk.dead_letters.stored:
            talk.dead_letters.end()
        if talk.broker.take():
            talk.session.upstream_data(produce_response(number, "judged"))
        return answer_of(talk)[0]

    def test_batches_of_clients_without_write_do_not_change_a_share(self):
        evil, other = self.quarantine(), self.quarantine()
        other.bad_shares = evil.bad_shares
        for number in range(1, 2 * BAD_MIN):
            self.bad(evil, number, good=0)
            if number == 1:
                looked_up(evil, DESCRIBE)
            assert answer_of(evil) == (29, None, [])
        self.bad(other, 1, good=0)
        looked_up(other, WRITE)
        assert self.store(other, 1) == 0
        assert (evil.refusals, evil.dead_letters.stored) == ([], [])

    @pytest.mark.parametrize(("is_stored", "expected"), [(True, 0), (False, 87)])
    def test_good_records_count_only_if_the_broker_has_stored_them(self, is_stored, expected):
        talk = self.quarantine()
        talk.produce(1, plain(*[b"good"] * 200))
        talk.decide(ACCEPTED)
        talk.broker.take()
        response = produce_response(1, "judged")
        if not is_stored:
            at = response.index(b"judged") + len(b"judged") + 5
            response = response[:at] + b"\x00\x1d" + response[at + 2 :]
        talk.session.upstream_data(response)
        assert answer_of(talk)[0] == (0 if is_stored else 29)
        for number in range(2, 2 + BAD_MIN):
            self.bad(talk, number, good=0)
            if number == 2:
                looked_up(talk, WRITE)
            code = self.store(talk, number)
        assert code == expected

    def test_good_records_of_a_mixed_batch_count_when_they_are_stored(self):
        talk = self.quarantine()
        for number in range(1, 2 * BAD_MIN):
            self.bad(talk, number, good=9)
            if number == 1:
                looked_up(talk, WRITE)
            assert self.store(talk, number) == 0
        assert talk.bad_shares.add("judged", 0, 0) == 0.1

    @pytest.mark.parametrize(("operations", "share"), [(WRITE, 0.1), (DESCRIBE, 1.0)])
    def test_with_acks_0_good_records_count_for_clients_that_may_write(self, operations, share):
        talk = self.quarantine()
        talk.bad_shares.add("judged", BAD_MIN, 0)
        talk.produce(1, plain(*[b"good"] * 9 * BAD_MIN), acks=0)
        talk.decide(ACCEPTED)
        looked_up(talk, operations)
        assert talk.bad_shares.add("judged", 0, 0) == share
