"""The cached rights of clients to write."""

from penstock.gateway.produce.lookups.write_rights import TTL_S, WriteRights


def test_a_right_is_cached_for_a_limited_time():
    now = [0.0]
    rights = WriteRights(lambda: now[0])
    client = 7, "User:alice"
    assert rights.code(client, "t") is None
    rights.put(client, "t", 29)
    assert rights.code(client, "t") == 29
    assert rights.code((7, "User:bob"), "t") is None
    now[0] += TTL_S
    assert rights.code(client, "t") is None


def test_a_principal_that_names_any_number_of_topics_does_not_displace_the_rights_of_others():
    rights = WriteRights(lambda: 0.0)
    rights.put((7, "User:alice"), "t", 0)
    for number in range(20_000):
        rights.put((number, "User:mallory"), f"t-{number}", 29)
    assert rights.code((7, "User:alice"), "t") == 0
    assert sum(map(len, rights._codes.values())) <= 10_000
    for number in range(20_000):
        rights.put((number, f"User:{number}"), "t", 0)
    assert sum(map(len, rights._codes.values())) <= 10_000
