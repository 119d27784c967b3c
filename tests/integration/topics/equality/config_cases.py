"""The cases of the APIs about configs. A label is given if a case names a topic twice."""

from tests.integration.topics.equality.requests import (
    APPEND,
    BROKER,
    BROKER_KEY,
    BROKER_LOGGER,
    CLEANUP,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    GROUP_KEY,
    NO_RESOURCE_TYPES,
    OFFSETS,
    RETENTION,
    SET,
    SUBTRACT,
    THROTTLED,
    TOPIC,
    Cases,
    alteration,
    altered,
    changed,
    described,
    description,
)
from tests.integration.topics.equality.world import World


def alter_configs(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing = existing("standing")
    retention = {RETENTION: "1000"}

    def mixed() -> tuple[dict, ...]:
        return (
            altered(TOPIC, existing(), retention),
            altered(TOPIC, fresh(), retention),
            altered(TOPIC, standing, {RETENTION: "x"}),
            altered(BROKER, "0", {BROKER_KEY: "1000"}),
            altered(99, "0", {BROKER_KEY: "1000"}),
            altered(TOPIC, existing(), retention),
        )

    return {
        "one": alteration(altered(TOPIC, existing(), retention)),
        "another is reset": alteration(
            altered(TOPIC, existing(configs={RETENTION: "7", CLEANUP: "compact"}), retention)
        ),
        "all are reset": alteration(altered(TOPIC, existing(configs=retention))),
        "an unknown config": alteration(altered(TOPIC, standing, {"no.such": "1"})),
        "an invalid config": alteration(altered(TOPIC, standing, {RETENTION: "x"})),
        "a null config": alteration(altered(TOPIC, standing, {RETENTION: None})),
        "null configs": alteration(
            altered(TOPIC, standing, {RETENTION: None, "no.such": None, CLEANUP: "compact"})
        ),
        "a config twice": alteration(
            altered(TOPIC, standing, [(RETENTION, "1"), (RETENTION, "2")])
        ),
        "a null config twice": alteration(
            altered(TOPIC, standing, [(RETENTION, None), (RETENTION, None)])
        ),
        "an unknown topic": alteration(altered(TOPIC, fresh(), retention)),
        "an unknown topic, no configs": alteration(altered(TOPIC, fresh())),
        "named with a space": alteration(altered(TOPIC, "a b", retention)),
        "named with nothing": alteration(altered(TOPIC, "", retention)),
        "a broker": alteration(altered(BROKER, "0", {BROKER_KEY: "1000"})),
        "all brokers": alteration(altered(BROKER, "", {BROKER_KEY: "1000"})),
        "an unknown broker": alteration(altered(BROKER, "99", {BROKER_KEY: "1000"})),
        "no broker's name": alteration(altered(BROKER, "abc", {BROKER_KEY: "1000"})),
        "a broker, read-only": alteration(altered(BROKER, "0", {"node.id": "1"})),
        "a broker, invalid": alteration(altered(BROKER, "0", {BROKER_KEY: "x"})),
        "a broker, unknown": alteration(altered(BROKER, "0", {"no.such": "x"})),
        "a logger": alteration(altered(BROKER_LOGGER, "0", {"root": "INFO"})),
        "metrics": alteration(altered(CLIENT_METRICS, fresh(), {"interval.ms": "1000"})),
        "a group": alteration(altered(GROUP, fresh(), {GROUP_KEY: "50000"})),
        "a group, invalid": alteration(altered(GROUP, fresh(), {GROUP_KEY: "x"})),
        "a group without a name": alteration(altered(GROUP, "", {GROUP_KEY: "50000"})),
        **{
            f"a resource of type {kind}": alteration(altered(kind, "x", retention))
            for kind in NO_RESOURCE_TYPES
        },
        "none": alteration(),
        "all sorts": alteration(*mixed()),
        "all sorts, validated only": alteration(*mixed(), validate_only=True),
        "validated only": alteration(altered(TOPIC, standing, retention), validate_only=True),
        "an invalid config, validated only": alteration(
            altered(TOPIC, standing, {RETENTION: "x"}), validate_only=True
        ),
    }


def incremental_alter_configs(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing = existing("standing")
    retention = (RETENTION, SET, "1000")
    broker = (BROKER_KEY, SET, "1000")

    def mixed() -> tuple[dict, ...]:
        return (
            changed(TOPIC, existing(), retention),
            changed(TOPIC, fresh(), retention),
            changed(TOPIC, standing, (RETENTION, SET, "x")),
            changed(BROKER, "0", broker),
            changed(BROKER_LOGGER, "0", ("no.such", SET, "WARN")),
            changed(99, "0", broker),
            changed(TOPIC, existing(), (CLEANUP, APPEND, "compact")),
        )

    def of_standing(*changes: tuple[str, int, str | None]) -> dict:
        return alteration(changed(TOPIC, standing, *changes))

    def of_compacted(change: tuple[str, int, str | None]) -> dict:
        return alteration(changed(TOPIC, existing(configs={CLEANUP: "compact"}), change))

    return {
        "set": alteration(changed(TOPIC, existing(), retention)),
        "set and deleted": alteration(
            changed(
                TOPIC, existing(configs={CLEANUP: "compact"}), retention, (CLEANUP, DELETE, None)
            )
        ),
        "set to null": of_standing((RETENTION, SET, None)),
        "set to nulls": of_standing(
            (RETENTION, SET, None), ("no.such", SET, None), (CLEANUP, APPEND, None)
        ),
        "set invalid": of_standing((RETENTION, SET, "x")),
        "set unknown": of_standing(("no.such", SET, "1")),
        "deleted": of_compacted((CLEANUP, DELETE, None)),
        "deleted with a value": of_compacted((CLEANUP, DELETE, "x")),
        "deleted, not set": of_standing((RETENTION, DELETE, None)),
        "deleted, unknown": of_standing(("no.such", DELETE, None)),
        "appended": alteration(changed(TOPIC, existing(), (CLEANUP, APPEND, "compact"))),
        "appended two": alteration(changed(TOPIC, existing(), (CLEANUP, APPEND, "compact,delete"))),
        "appended what is there": of_compacted((CLEANUP, APPEND, "compact")),
        "appended where nothing is": alteration(
            changed(TOPIC, existing(), (THROTTLED, APPEND, "0:0"))
        ),
        "appended null": of_standing((CLEANUP, APPEND, None)),
        "appended invalid": of_standing((CLEANUP, APPEND, "x")),
        "appended to no list": of_standing((RETENTION, APPEND, "1")),
        "appended to what is unknown": of_standing(("no.such", APPEND, "1")),
        "subtracted": alteration(
            changed(
                TOPIC, existing(configs={CLEANUP: "compact,delete"}), (CLEANUP, SUBTRACT, "compact")
            )
        ),
        "subtracted all": of_compacted((CLEANUP, SUBTRACT, "compact")),
        "subtracted what is not there": of_standing((CLEANUP, SUBTRACT, "compact")),
        "subtracted from no list": of_standing((RETENTION, SUBTRACT, "1")),
        "nothing": of_standing(),
        "a config twice": of_standing((RETENTION, SET, "1"), (RETENTION, SET, "2")),
        "a config set and deleted": of_standing((RETENTION, SET, "1"), (RETENTION, DELETE, None)),
        "a null config twice": of_standing((RETENTION, SET, None), (RETENTION, SET, None)),
        "a resource twice": alteration(
            changed(TOPIC, standing, retention), changed(TOPIC, standing, (CLEANUP, SET, "compact"))
        ),
        "a resource twice, and another": alteration(
            changed(TOPIC, standing, retention),
            changed(TOPIC, existing(), retention),
            changed(TOPIC, standing, (CLEANUP, SET, "compact")),
        ),
        "an unknown topic": alteration(changed(TOPIC, fresh(), retention)),
        "an unknown topic, nothing": alteration(changed(TOPIC, fresh())),
        "named with a space": alteration(changed(TOPIC, "a b", retention)),
        "named with nothing": alteration(changed(TOPIC, "", retention)),
        "a broker": alteration(changed(BROKER, "0", broker)),
        "a broker, deleted": alteration(changed(BROKER, "0", (BROKER_KEY, DELETE, None))),
        "a broker, null": alteration(changed(BROKER, "0", (BROKER_KEY, SET, None))),
        "a broker, invalid": alteration(changed(BROKER, "0", (BROKER_KEY, SET, "x"))),
        "a broker, unknown": alteration(changed(BROKER, "0", ("no.such", SET, "x"))),
        "a broker, read-only": alteration(changed(BROKER, "0", ("node.id", SET, "1"))),
        "a broker, appended": alteration(
            changed(BROKER, "0", ("log.cleanup.policy", APPEND, "compact"))
        ),
        "a broker, the list deleted": alteration(
            changed(BROKER, "0", ("log.cleanup.policy", DELETE, None))
        ),
        "a broker, appended to no list": alteration(
            changed(BROKER, "0", (BROKER_KEY, APPEND, "1"))
        ),
        "all brokers": alteration(changed(BROKER, "", broker)),
        "an unknown broker": alteration(changed(BROKER, "99", broker)),
        "no broker's name": alteration(changed(BROKER, "abc", broker)),
        "a logger": alteration(changed(BROKER_LOGGER, "0", ("root", SET, "WARN"))),
        "a logger, deleted": alteration(changed(BROKER_LOGGER, "0", ("root", DELETE, None))),
        "a logger, invalid": alteration(changed(BROKER_LOGGER, "0", ("root", SET, "LOUD"))),
        "a logger, appended": alteration(changed(BROKER_LOGGER, "0", ("root", APPEND, "INFO"))),
        "a logger, unknown": alteration(changed(BROKER_LOGGER, "0", ("no.such", SET, "INFO"))),
        "a logger of another": alteration(changed(BROKER_LOGGER, "99", ("root", SET, "INFO"))),
        "a logger of nobody": alteration(changed(BROKER_LOGGER, "", ("root", SET, "INFO"))),
        "a logger, validated only": alteration(
            changed(BROKER_LOGGER, "0", ("root", SET, "DEBUG")), validate_only=True
        ),
        "a logger and a topic": alteration(
            changed(BROKER_LOGGER, "0", ("no.such", SET, "WARN")),
            changed(TOPIC, existing(), retention),
        ),
        "metrics": alteration(changed(CLIENT_METRICS, fresh(), ("interval.ms", SET, "1000"))),
        "metrics, invalid": alteration(changed(CLIENT_METRICS, fresh(), ("interval.ms", SET, "1"))),
        "metrics, appended": alteration(
            changed(CLIENT_METRICS, fresh(), ("match", APPEND, "client_id=x"))
        ),
        "a group": alteration(changed(GROUP, fresh(), (GROUP_KEY, SET, "50000"))),
        "a group, invalid": alteration(changed(GROUP, fresh(), (GROUP_KEY, SET, "x"))),
        "a group without a name": alteration(changed(GROUP, "", (GROUP_KEY, SET, "50000"))),
        **{
            f"a resource of type {kind}": alteration(changed(kind, "x", retention))
            for kind in NO_RESOURCE_TYPES
        },
        "none": alteration(),
        "all sorts": alteration(*mixed()),
        "all sorts, validated only": alteration(*mixed(), validate_only=True),
        "validated only": alteration(changed(TOPIC, standing, retention), validate_only=True),
        "appended, validated only": alteration(
            changed(TOPIC, standing, (CLEANUP, APPEND, "compact")), validate_only=True
        ),
        "set invalid, validated only": alteration(
            changed(TOPIC, standing, (RETENTION, SET, "x")), validate_only=True
        ),
    }


def describe_configs(world: World, _: int) -> Cases:
    standing = world.existing("standing", configs={RETENTION: "7"})
    every = described(TOPIC, standing)
    retention = described(TOPIC, standing, [RETENTION])
    unknown = world.fresh()
    return {
        "all": description(every),
        "all with synonyms": description(every, synonyms=True),
        "all with documentation": description(every, documentation=True),
        "all with both": description(every, synonyms=True, documentation=True),
        "no keys": description(described(TOPIC, standing, [])),
        "a key": description(retention),
        "keys": description(described(TOPIC, standing, [RETENTION, "no.such", CLEANUP, RETENTION])),
        "an unknown key": description(described(TOPIC, standing, ["no.such"])),
        "an unknown topic": description(described(TOPIC, unknown)),
        "named with a space": description(described(TOPIC, "a b")),
        "named with nothing": description(described(TOPIC, "")),
        "the topic of offsets": description(described(TOPIC, OFFSETS)),
        "a topic twice": description(every, every),
        "a topic twice, then a key": description(every, retention),
        "a topic twice, first a key": description(retention, every),
        "a broker": description(described(BROKER, "0"), synonyms=True, documentation=True),
        "a broker's key": description(described(BROKER, "0", [BROKER_KEY])),
        "a broker, no keys": description(described(BROKER, "0", [])),
        "all brokers": description(described(BROKER, "")),
        "an unknown broker": description(described(BROKER, "99")),
        "no broker's name": description(described(BROKER, "abc")),
        "loggers": description(described(BROKER_LOGGER, "0")),
        "a logger": description(described(BROKER_LOGGER, "0", ["root"])),
        "loggers of another": description(described(BROKER_LOGGER, "99")),
        "loggers of nobody": description(described(BROKER_LOGGER, "")),
        "metrics": description(described(CLIENT_METRICS, unknown)),
        "a group": description(described(GROUP, unknown), synonyms=True, documentation=True),
        "a group without a name": description(described(GROUP, "")),
        "a group named as a topic": description(described(GROUP, standing), retention),
        **{
            f"a resource of type {kind}": description(described(kind, "x"))
            for kind in NO_RESOURCE_TYPES
        },
        "a resource of no type and a topic": description(described(99, "0"), every),
        "all sorts": description(
            every, described(TOPIC, unknown), described(BROKER, "0"), described(GROUP, unknown)
        ),
        "none": description(),
    }
