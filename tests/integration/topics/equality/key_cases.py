"""The cases for a key of Penstock and a key of Kafka, by API."""

from tests.integration.topics.equality.requests import (
    ALTER_CONFIGS,
    APPEND,
    BROKER_LOGGER,
    CREATE_TOPICS,
    DELETE,
    GROUP,
    INCREMENTAL_ALTER_CONFIGS,
    RETENTION,
    SET,
    SUBTRACT,
    TOPIC,
    Cases,
    alteration,
    altered,
    assigned,
    changed,
    creation,
    new,
)
from tests.integration.topics.equality.world import World

KAFKAS_KEY, OWN_KEY = "unclean.leader.election.enable", "records.policy.enabled"
"""Both are booleans that are false by default."""


def create_topics_with_key(world: World) -> Cases:
    fresh, key = world.fresh, world.key
    values = ("true", "false", "maybe", "", "1", None)
    return {
        **{
            f"{value!r} {'validated only' * only}": creation(
                new(fresh(), configs={key: value}), validate_only=only
            )
            for value in values
            for only in (False, True)
        },
        "beside another": creation(new(fresh(), configs={key: "true", RETENTION: "1000"})),
        "beside an invalid one": creation(new(fresh(), configs={key: "true", RETENTION: "x"})),
        "beside nulls": creation(new(fresh(), configs={key: None, RETENTION: None})),
        "twice": creation(new(fresh(), configs=[(key, "true"), (key, "false")])),
        "twice, the first invalid": creation(new(fresh(), configs=[(key, "x"), (key, "true")])),
        "twice, the second invalid": creation(new(fresh(), configs=[(key, "true"), (key, "x")])),
        "twice, the first null": creation(new(fresh(), configs=[(key, None), (key, "true")])),
        "twice, the second null": creation(new(fresh(), configs=[(key, "true"), (key, None)])),
        "there": creation(new(world.existing(), configs={key: "maybe"})),
        "named with a space": creation(new("a b", configs={key: "maybe"})),
        "too many replicas": creation(new(fresh(), 1, 9, {key: "true"})),
        "invalid, too many replicas": creation(new(fresh(), 1, 9, {key: "maybe"})),
        "zero partitions": creation(new(fresh(), 0, 1, {key: "true"})),
        "assigned": creation(
            assigned(fresh(), [0]) | {"configs": [{"name": key, "value": "true"}]}
        ),
        "no counts": creation(new(fresh(), -1, -1, {key: "true"})),
        "a topic twice": creation(new(fresh("2"), configs={key: "true"}), new(fresh("2"))),
        "one of several": creation(
            new(fresh()), new(fresh(), configs={key: "maybe"}), new(fresh(), configs={key: "true"})
        ),
    }


def alter_configs_with_key(world: World) -> Cases:
    key, existing = world.key, world.existing
    on = {key: "true"}
    values = ("true", "false", "maybe", "", None)
    return {
        **{
            f"{value!r} {'validated only' * only}": alteration(
                altered(TOPIC, existing(), {key: value}), validate_only=only
            )
            for value in values
            for only in (False, True)
        },
        "beside another": alteration(altered(TOPIC, existing(), {**on, RETENTION: "1000"})),
        "beside an invalid one": alteration(altered(TOPIC, existing(), {**on, RETENTION: "x"})),
        "beside nulls": alteration(altered(TOPIC, existing(), {key: None, RETENTION: None})),
        "reset": alteration(altered(TOPIC, existing(configs=on), {RETENTION: "1000"})),
        "reset, validated only": alteration(
            altered(TOPIC, existing(configs=on), {RETENTION: "1000"}), validate_only=True
        ),
        "not reset, another is invalid": alteration(
            altered(TOPIC, existing(configs=on), {RETENTION: "x"})
        ),
        "all are reset": alteration(altered(TOPIC, existing(configs={**on, RETENTION: "7"}))),
        "set anew": alteration(altered(TOPIC, existing(configs=on), {key: "false"})),
        "twice": alteration(altered(TOPIC, existing(), [(key, "true"), (key, "false")])),
        "twice, one null": alteration(altered(TOPIC, existing(), [(key, "true"), (key, None)])),
        "an unknown topic": alteration(altered(TOPIC, world.fresh(), on)),
        "named with a space": alteration(altered(TOPIC, "a b", on)),
        "named with nothing": alteration(altered(TOPIC, "", on)),
        "a group": alteration(altered(GROUP, world.fresh(), on)),
        "one of several": alteration(
            altered(TOPIC, existing(), {RETENTION: "9"}),
            altered(TOPIC, existing(), {key: "maybe"}),
            altered(TOPIC, existing(), on),
        ),
    }


def incremental_alter_configs_with_key(world: World) -> Cases:
    key, existing = world.key, world.existing
    on, off, deleted = (key, SET, "true"), (key, SET, "false"), (key, DELETE, None)
    retention = (RETENTION, SET, "1000")
    values = ("true", "false", "maybe", "", None)

    def of_set(*changes: tuple[str, int, str | None], validate_only: bool = False) -> dict:
        resource = changed(TOPIC, existing(configs={key: "true"}), *changes)
        return alteration(resource, validate_only=validate_only)

    def of_new(*changes: tuple[str, int, str | None], validate_only: bool = False) -> dict:
        return alteration(changed(TOPIC, existing(), *changes), validate_only=validate_only)

    return {
        **{
            f"{value!r} {'validated only' * only}": of_new((key, SET, value), validate_only=only)
            for value in values
            for only in (False, True)
        },
        "deleted": of_set(deleted),
        "deleted, validated only": of_set(deleted, validate_only=True),
        "deleted with a value": of_set((key, DELETE, "maybe")),
        "deleted, not set": of_new(deleted),
        "deleted, another set": of_set(deleted, retention),
        "set anew": of_set(off),
        "appended": of_new((key, APPEND, "true")),
        "appended null": of_new((key, APPEND, None)),
        "subtracted": of_set((key, SUBTRACT, "true")),
        "beside another": of_new(on, retention),
        "beside an invalid one": of_new(on, (RETENTION, SET, "x")),
        "invalid beside another": of_new((key, SET, "maybe"), retention),
        "beside nulls": of_new((key, SET, None), (RETENTION, SET, None)),
        "set and deleted": of_set(on, deleted),
        "twice": of_new(on, off),
        "twice null": of_new((key, SET, None), (key, SET, None)),
        "twice and another twice": of_new(on, retention, off, retention),
        "a resource twice": alteration(
            changed(TOPIC, existing("2"), on), changed(TOPIC, existing("2"), retention)
        ),
        "an unknown topic": alteration(changed(TOPIC, world.fresh(), on)),
        "an unknown topic, deleted": alteration(changed(TOPIC, world.fresh(), deleted)),
        "named with a space": alteration(changed(TOPIC, "a b", on)),
        "named with nothing": alteration(changed(TOPIC, "", on)),
        "a group": alteration(changed(GROUP, world.fresh(), on)),
        "a logger": alteration(changed(BROKER_LOGGER, "0", on)),
        "one of several": alteration(
            changed(TOPIC, existing(), retention),
            changed(TOPIC, existing(), (key, SET, "maybe")),
            changed(TOPIC, world.fresh(), on),
            changed(TOPIC, existing(), on),
        ),
    }


CASES_WITH_KEY = {
    CREATE_TOPICS: create_topics_with_key,
    ALTER_CONFIGS: alter_configs_with_key,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_with_key,
}
