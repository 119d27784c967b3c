"""The cases of the APIs about topics. A label is given if a case names a topic twice."""

from collections.abc import Sequence

from tests.integration.topics.equality.requests import (
    CLEANUP,
    OFFSETS,
    RETENTION,
    SHARE_KEY,
    TIMEOUT,
    UNKNOWN_ID,
    Cases,
    IdOf,
    assigned,
    creation,
    deletion,
    metadata_fields,
    more,
    new,
    search,
)
from tests.integration.topics.equality.world import World


def create_topics(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    mixed = lambda: (  # noqa: E731
        new(existing()),
        new(fresh(), 2),
        new("a b"),
        new(fresh(), 1, 9),
        new(fresh(), configs={RETENTION: "x"}),
        new(fresh(), configs={RETENTION: "7"}),
        new(fresh(), 0),
    )
    return {
        "one": creation(new(fresh())),
        "three partitions": creation(new(fresh(), 3)),
        "no counts": creation(new(fresh(), -1, -1)),
        "no partitions": creation(new(fresh(), -1, 1)),
        "no replicas": creation(new(fresh(), 2, -1)),
        "assigned": creation(assigned(fresh(), [0], [0])),
        "assigned and counted": creation(assigned(fresh(), [0], partitions=2, replicas=1)),
        "assigned, replicas counted": creation(assigned(fresh(), [0], replicas=1)),
        "assigned to nobody": creation(assigned(fresh(), [])),
        "assigned to an unknown broker": creation(assigned(fresh(), [7])),
        "assigned twice to a broker": creation(assigned(fresh(), [0, 0])),
        "assigned unevenly": creation(assigned(fresh(), [0], [0, 1])),
        "assigned with a gap": creation(assigned(fresh(), [0], [0], numbers=(0, 2))),
        "assigned one partition twice": creation(assigned(fresh(), [0], [0], numbers=(0, 0))),
        "zero partitions": creation(new(fresh(), 0)),
        "negative partitions": creation(new(fresh(), -2)),
        "too many partitions": creation(new(fresh(), 10_001), validate_only=True),
        "zero replicas": creation(new(fresh(), 1, 0)),
        "negative replicas": creation(new(fresh(), 1, -2)),
        "too many replicas": creation(new(fresh(), 1, 3)),
        "there": creation(new(existing("standing"))),
        "there and all wrong": creation(new(existing("standing"), 0, 3, {RETENTION: "x"})),
        "named with nothing": creation(new("")),
        "named with a dot": creation(new(".")),
        "named with dots": creation(new("..")),
        "named with a space": creation(new(fresh("a b"))),
        "named with a slash": creation(new(fresh("a/b"))),
        "named with an umlaut": creation(new(fresh("ä"))),
        "named too long": creation(new(fresh("x" * 250))),
        "named as long as can be": creation(new(fresh("x" * (250 - len(fresh("-")))))),
        "named like another": creation(new(existing("x.y")), new(fresh("x_y"))),
        "named like each other": creation(new(fresh("u.v")), new(fresh("u_v"))),
        "named as the log of metadata": creation(new("__cluster_metadata")),
        "named as the topic of offsets": creation(new(OFFSETS)),
        "twice": creation(new(fresh("twice")), new(fresh("twice"))),
        "twice, differently": creation(new(fresh("2"), 0), new(fresh()), new(fresh("2"), 3)),
        "thrice": creation(new(fresh("3")), new(fresh("3")), new(fresh()), new(fresh("3"))),
        "configs": creation(new(fresh(), configs={RETENTION: "1000", CLEANUP: "compact"})),
        "a list": creation(new(fresh(), configs={CLEANUP: "compact,delete"})),
        "an invalid config": creation(new(fresh(), configs={RETENTION: "x"})),
        "an empty config": creation(new(fresh(), configs={RETENTION: ""})),
        "an unknown config": creation(new(fresh(), configs={"no.such": "1"})),
        "a null config": creation(new(fresh(), configs={RETENTION: None})),
        "null configs": creation(
            new(fresh(), configs={RETENTION: None, "no.such": None, CLEANUP: "compact"})
        ),
        "a config twice": creation(new(fresh(), configs=[(RETENTION, "1"), (RETENTION, "2")])),
        "a config twice, the second invalid": creation(
            new(fresh(), configs=[(RETENTION, "1"), (RETENTION, "x")])
        ),
        "a config twice, the first invalid": creation(
            new(fresh(), configs=[(RETENTION, "x"), (RETENTION, "1")])
        ),
        "an invalid config, too many replicas": creation(new(fresh(), 1, 3, {RETENTION: "x"})),
        "none": creation(),
        "many": creation(*(new(fresh()) for _ in range(4))),
        "all sorts": creation(*mixed()),
        "all sorts, validated only": creation(*mixed(), validate_only=True),
        "validated only": creation(new(fresh()), validate_only=True),
        "no counts, validated only": creation(new(fresh(), -1, -1), validate_only=True),
        "assigned, validated only": creation(assigned(fresh(), [0]), validate_only=True),
        "a config, validated only": creation(
            new(fresh(), configs={RETENTION: "7"}), validate_only=True
        ),
        "an invalid config, validated only": creation(
            new(fresh(), configs={RETENTION: "x"}), validate_only=True
        ),
        "there, validated only": creation(new(existing("standing")), validate_only=True),
    }


def delete_topics(world: World, version: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    cases = {
        "one": deletion(existing()),
        "unknown": deletion(fresh()),
        "several": deletion(existing(), fresh(), existing()),
        "twice": deletion(existing("twice"), existing("twice")),
        "twice, and another": deletion(existing(), existing("2"), existing("2")),
        "unknown, twice": deletion(fresh("unknown"), fresh("unknown")),
        "none": deletion(),
        "named with nothing": deletion(""),
        "named with a space": deletion("a b"),
        "named as the log of metadata": deletion("__cluster_metadata"),
    }
    if version >= 6:
        both = {"name": existing("named"), "topic_id": IdOf(existing("named"))}
        neither = {"name": None, "topic_id": None}
        cases |= {
            "an id": deletion(IdOf(existing())),
            "an unknown id": deletion(IdOf("nothing's"), existing()),
            "an id twice": deletion(IdOf(existing("id")), IdOf(existing("id"))),
            "an id and its name": deletion(existing("both"), IdOf(existing("both"))),
            "an id and another's name": deletion(existing(), IdOf(existing())),
            "an id with its name": {"topics": [both], "timeout": TIMEOUT},
            "neither id nor name": {"topics": [neither], "timeout": TIMEOUT},
            "neither, and another": {
                "topics": [neither, {"name": existing(), "topic_id": None}],
                "timeout": TIMEOUT,
            },
        }
    return cases


def create_partitions(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing = existing("standing", partitions=2)

    def mixed() -> tuple[dict, ...]:
        return more(existing(), 3), more(fresh(), 3), more(standing, 1), more(existing(), 2)

    return {
        "one": creation(more(existing(), 3)),
        "of a topic with configs": creation(more(existing(configs={RETENTION: "7"}), 3)),
        "as many": creation(more(standing, 2)),
        "fewer": creation(more(standing, 1)),
        "zero": creation(more(standing, 0)),
        "negative": creation(more(standing, -1)),
        "too many": creation(more(standing, 20_000), validate_only=True),
        "unknown": creation(more(fresh(), 3)),
        "named with nothing": creation(more("", 3)),
        "named with a space": creation(more("a b", 3)),
        "twice": creation(more(standing, 3), more(standing, 3)),
        "twice, and another": creation(more(standing, 3), more(existing(), 2), more(standing, 4)),
        "assigned": creation(more(existing(), 3, [0], [0])),
        "assigned too few": creation(more(standing, 4, [0])),
        "assigned to nobody": creation(more(standing, 3, [])),
        "assigned to an unknown broker": creation(more(standing, 3, [9])),
        "assigned twice to a broker": creation(more(standing, 3, [0, 0])),
        "of the topic of offsets": creation(more(OFFSETS, 4), validate_only=True),
        "none": creation(),
        "all sorts": creation(*mixed()),
        "all sorts, validated only": creation(*mixed(), validate_only=True),
        "validated only": creation(more(standing, 3), validate_only=True),
    }


def delete_records(world: World, _: int) -> Cases:
    standing, unknown = world.existing("standing"), world.fresh()

    def of(*topics: tuple[str, Sequence[tuple[int, int]]]) -> dict:
        named = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": partition, "offset": until}
                    for partition, until in partitions
                ],
            }
            for name, partitions in topics
        ]
        return {"topics": named, "timeout": TIMEOUT}

    return {
        "none": of(),
        "of a topic": of((standing, [(0, 0)])),
        "all of a topic": of((standing, [(0, -1)])),
        "more than there are": of((standing, [(0, 5)])),
        "until a negative offset": of((standing, [(0, -2)])),
        "of no partition": of((standing, [])),
        "of an unknown partition": of((standing, [(7, 0), (0, 0)])),
        "of an unknown topic": of((unknown, [(0, 0)]), (standing, [(0, 0)])),
        "of a partition twice": of((standing, [(0, 0), (0, 0)])),
        "of a topic twice": of((standing, [(0, 0)]), (standing, [(0, 0)])),
        "of the topic of offsets": of((OFFSETS, [(0, 0)])),
    }


def metadata(world: World, version: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing, other = existing("standing", partitions=3), existing("other")
    cases = {
        "all": metadata_fields(all_topics=version > 0),
        "none": metadata_fields(),
        "one": metadata_fields(standing),
        "one, creating none": metadata_fields(standing, creates=False),
        "one and the rights": metadata_fields(standing, rights=True),
        "one twice": metadata_fields(standing, standing),
        "unknown": metadata_fields(fresh("unknown")),
        "unknown, creating none": metadata_fields(fresh(), creates=version < 4),
        "unknown and the rights": metadata_fields(fresh(), rights=True),
        "unknown twice": metadata_fields(fresh("twice"), fresh("twice")),
        "named with nothing": metadata_fields(""),
        "named with dots": metadata_fields(".."),
        "named with a space": metadata_fields(fresh("a b")),
        "named with a space, creating none": metadata_fields(fresh("a b"), creates=False),
        "named too long": metadata_fields(fresh("x" * 250)),
        "named like another": metadata_fields(existing("x.y"), fresh("x_y")),
        "named like each other": metadata_fields(fresh("u.v"), fresh("u_v")),
        "the topic of offsets": metadata_fields(OFFSETS),
        "the log of metadata": metadata_fields("__cluster_metadata"),
        "all sorts": metadata_fields(other, fresh(), "a b", standing, fresh()),
    }
    if version >= 10:
        by_id, another = IdOf(standing), {"name": other, "topic_id": IdOf(standing)}
        cases |= {
            "an id": metadata_fields(by_id),
            "an id, creating none": metadata_fields(by_id, creates=False),
            "an unknown id": metadata_fields({"name": None, "topic_id": UNKNOWN_ID}),
            "an id with its name": metadata_fields({"name": standing, "topic_id": by_id}),
            "an id with another name": metadata_fields(another),
            "an id and a name": metadata_fields(other, by_id),
            "an id and an unknown name": metadata_fields(fresh(), by_id),
            "neither id nor name": metadata_fields({"name": None, "topic_id": None}),
        }
    return cases


def find_coordinator(_: World, __: int) -> Cases:
    keys = {
        "a key": ["key"],
        "no key": [],
        "an empty key": [""],
        "keys": ["key", "other", "key"],
        "a share group's key": [SHARE_KEY],
        "what looks like one": ["x:y:0"],
    }
    return {
        f"{what} of type {kind}": search(kind, *of)
        for kind in (-1, 0, 1, 2, 3, 99)
        for what, of in keys.items()
    }
