"""Names and ids of topics, and how long they are cached."""

from uuid import UUID

from penstock.gateway.context.topic_names import TopicNames

ID, ANOTHER = UUID(int=1), UUID(int=2)


def test_an_id_keeps_its_name_and_a_name_its_id_for_ten_seconds():
    now = [100.0]
    names = TopicNames(lambda: now[0])
    assert names.name(ID) is None
    assert names.topic_id("t") is None
    names.put("t", ID)
    now[0] += 9.9
    assert names.topic_id("t") == ID
    now[0] += 0.2
    assert names.topic_id("t") is None
    assert names.name(ID) == "t"


def test_the_expiry_of_a_name_is_returned():
    now = [100.0]
    names = TopicNames(lambda: now[0])
    assert names.known_until("t") == 0
    names.put("t", ID)
    until = names.known_until("t")
    now[0] = until - 0.001
    assert names.topic_id("t") is not None
    now[0] = until
    assert names.topic_id("t") is None


def test_a_topic_that_is_created_again_has_another_id():
    names = TopicNames(lambda: 1.0)
    names.put("t", ID)
    names.put("t", ANOTHER)
    assert names.topic_id("t") == ANOTHER
    assert names.name(ID) == names.name(ANOTHER) == "t"


def test_an_id_from_before_a_change_is_not_used():
    now = [100.0]
    names = TopicNames(lambda: now[0])
    names.put("t", ID)
    assert names.topic_id("t", changed_at=99.0) == ID
    assert names.topic_id("t", changed_at=100.0) is None


def test_cached_names_count_as_held_memory_until_they_are_forgotten():
    names = TopicNames(lambda: 1.0)
    for number in range(10_500):
        names.put(f"topic-{number}", UUID(int=number + 1))
    assert 100 * 10_000 < names.held_bytes <= 1000 * 10_000
    names.forget()
    assert names.held_bytes == 0
    assert names.name(UUID(int=10_500)) is None


def test_the_names_that_were_stored_first_are_forgotten_first():
    names = TopicNames(lambda: 1.0)
    for number in range(10_000):
        names.put(f"topic-{number}", UUID(int=number + 1))
    names.put("topic-0", UUID(int=1))
    names.put("another", UUID(int=20_000))
    assert names.topic_id("topic-0") == UUID(int=1)
    assert names.topic_id("topic-1") is None
    assert names.name(UUID(int=2)) is None
    assert names.name(UUID(int=20_000)) == "another"
