"""The counted resources of a process."""

import os

from confluent_kafka.admin import AdminClient

from tests.gateways import wait_until, wait_until_settled
from tests.soak.samples import NO_SOCKETS, THREADS, now, thread_names


def test_a_client_of_librdkafka_counts_the_same_with_any_number_of_brokers():
    def used(brokers):
        before, running = now([], os.getpid()), _of_brokers()
        servers = ",".join(f"127.0.0.{number}:1" for number in range(1, brokers + 1))
        client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        # And a thread for the bootstrap broker.
        wait_until(lambda: _of_brokers() == running + brokers + 1)
        wait_until_settled(lambda: thread_names(os.getpid()))  # threads name themselves
        after = now([], os.getpid())
        kept.append(client)
        return after[THREADS] - before[THREADS], after[NO_SOCKETS] - before[NO_SOCKETS]

    kept = []
    used(1)  # opened by the first client for all
    of_one, of_five = used(1), used(5)
    assert of_one[0] > 0
    # Another thread of the process may begin or end meanwhile, but not one for each broker.
    assert of_five[0] - of_one[0] < 4
    assert of_five[1] - of_one[1] < 2 * 4


def _of_brokers():
    names = thread_names(os.getpid())
    return sum(count for name, count in names.items() if name.startswith("rdk:broker"))
