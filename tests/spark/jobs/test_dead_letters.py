"""What Spark's columns say of dead letters, compared with what is read of each without Spark."""

import random
import struct

from pyspark.sql import functions as F

from penstock.engine.modes.dead_letters import (
    FORMATS,
    PartialOrigin,
    format_of,
    is_of_share_group,
    own_headers,
    prefixes_of,
    read_origin,
)
from penstock.jobs.batches.letter_topics import MORE, TOPICS_MAX, LetterTopics
from penstock.policy import Header
from penstock.spark.jobs.dead_letters import (
    LETTER,
    is_without_record,
    record_headers,
    with_letters,
)
from penstock.spark.jobs.redrive import find_letters
from tests.jobs.batches.letters import WRITERS, connect, share_group

PLACED = "topic string, partition int, offset bigint"
COLUMNS = "key binary, value binary, headers array<struct<key: string, value: binary>>"
NAMES = [
    name for form in FORMATS for name in (form.topic, form.partition, form.offset, form.timestamp)
    if name is not None
] + [
    "own", "", "__dlq.errors.group", "__dlq.id", "__penstock.replays", "retry_topic-attempts",
    "kafka_exception-fqcn", "__connect.errors.x", "__CONNECT.errors.topic", "\N{GREEK SMALL LETTER MU}",
]  # fmt: skip
TEXTS = [
    None, b"", b"orders", b"payments", b"a b", b"\xff\xfe", b"orders\n", b"x" * 249, b"x" * 250,
    b"5", b" 7\t", b"+8", b"-3", b"1.5", b"1e3", b"0x1", b"\x005", b"5\x1f", "\uff15".encode(),
    b"2147483647", b"2147483648", b"9223372036854775807", b"9223372036854775808", b"-0",
    b"-9223372036854775808", b"9" * 20, b"0" * 25, struct.pack(">i", -1), struct.pack(">i", 2**31 - 1),
    struct.pack(">q", -1), struct.pack(">q", 2**63 - 1), struct.pack(">q", -(2**63)), b"1234",
    b"\xff" * 16, b"12345678",
]  # fmt: skip


def letters(count, chance):
    """Return the headers of letters of all writers with others among them, and of no letters."""
    for _ in range(count):
        place = chance.choice(["orders", "payments"]), chance.randrange(2**31), chance.randrange(99)
        writer = chance.choice([*WRITERS, share_group, None])
        headers = []
        if writer is share_group:
            headers += share_group(*place).headers
        elif writer is not None:
            headers += writer(*place, chance.randrange(2**41), None, None).headers
        for _ in range(chance.randrange(4)):
            more = Header(chance.choice(NAMES), chance.choice(TEXTS))
            headers.insert(chance.randrange(len(headers) + 1), more)
        yield headers


def test_columns_say_what_is_read_of_each_letter(spark):
    chance = random.Random(52)
    every = [*letters(1500, chance), *([Header(name, text), Header(form.topic, b"orders")]
             for form in FORMATS for name in NAMES for text in TEXTS)]  # fmt: skip
    rows = [(chance.choice([None, b"k"]), None, [(*header,) for header in headers])
            for headers in every]  # fmt: skip
    frame = with_letters(spark.createDataFrame(rows, COLUMNS).coalesce(1))
    letter, partition = F.col(LETTER), F.col(LETTER)["partition"]
    found = frame.select(
        letter["form"], letter["topic"], F.when(partition >= 0, partition), letter["offset"],
        letter["timestamp"], is_without_record(), record_headers(),
    ).collect()  # fmt: skip
    for headers, (key, *_), row in zip(every, rows, found, strict=True):
        form, (topic, *numbers, _) = (
            format_of(headers),
            read_origin(headers, PartialOrigin(*[None] * 4)),
        )
        *first, is_empty, left = row
        assert [(name, value and bytes(value)) for name, value in left] == list(
            own_headers(headers, prefixes_of(form))
        ), headers
        if form is None:
            assert first[0] is None, headers
            continue
        assert first == [form.topic, topic, *numbers], headers
        assert bool(is_empty) == (key is None and is_of_share_group(headers)), headers


def named(spark, topics):
    """Return a frame of a letter of each topic, and of a record that is not a letter."""
    rows = [("dead", 0, offset, [*connect(topic, 0, 1, 5, None, None).headers])
            for offset, topic in enumerate(topics)]  # fmt: skip
    rows.append(("dead", 0, len(topics), []))
    every = [(None, None, [(*header,) for header in headers], *place) for *place, headers in rows]
    return spark.createDataFrame(every, f"{COLUMNS}, {PLACED}")


def test_topics_are_those_that_names_and_globs_mean(spark):
    topics = ["orders", "orders.eu", "orders-eu", "payments", "__orders", "a", "A", "orders.us"]
    frame = named(spark, topics).cache()
    for parts in [("orders", "a"), ("*",), ("orders.*",), ("orders[.-]eu", "A"), ("[!o]*", "__orders"),
                  ("x[&&a]*",), ("[a", "?"), ("^*$", "a|A", "(a)")]:  # fmt: skip
        some = LetterTopics(parts)
        found = find_letters(frame, some)
        assert found.others == {topic: 1 for topic in topics if topic not in some}
        assert found.returning == sum(topic in some for topic in topics)
        assert (found.strangers, found.stranger) == (1, "dead-0, offset 8")
    assert find_letters(frame, LetterTopics()).returning == len(topics)


def test_names_that_a_client_chooses_take_bounded_memory(spark):
    topics = [f"t{number}" for number in range(TOPICS_MAX + 50)]
    found = find_letters(
        named(spark, [*topics, "many", "many", "orders"]), LetterTopics(("orders",))
    )
    assert (found.returning, found.strangers) == (1, 1)
    assert (found.others["many"], sum(found.others.values())) == (2, TOPICS_MAX + 52)
    assert (len(found.others), found.others[MORE]) == (TOPICS_MAX + 1, 51)
