"""The cached rights of clients to write."""

from penstock.gateway.produce.write_rights import TTL_S, WriteRights


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
