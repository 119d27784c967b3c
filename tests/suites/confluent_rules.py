"""Runs Confluent's client for Python: prints, for each case, why it does not send a value, or "".

A program of a separate environment, which has the client and not Penstock.
"""

import base64
import copy
import json
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.confluent import meta_pb2  # noqa: F401 - extends options
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory

from tests.suites.rule_cases import Case, avro_schema, cases, json_schema, protobuf_file

_CONF = {
    "auto.register.schemas": False,
    "use.latest.version": True,
    "validation.rules.execution": "AFTER_DOMAIN_RULES",
}


class Client:
    """Keeps what cases share: messages, which may be declared once."""

    def __init__(self) -> None:
        self._messages: dict[Any, Any] = {}

    def answer(self, case: Case, number: int) -> str:
        """Return why a value is not sent."""
        client = SchemaRegistryClient.new_client({"url": "mock://"})
        topic = f"t{number}"
        text, serializer, value = self._of_format(case, client)
        rule_set = RuleSet([], [_rule(rule) for rule in case.rules])
        metadata = Metadata(MetadataTags({}), MetadataProperties({}), [])
        schema = Schema(text, case.format, [], metadata, rule_set)
        client.register_schema(f"{topic}-value", schema)
        try:
            serializer()(value, SerializationContext(topic, MessageField.VALUE))
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:200] or "error"
        return ""

    def _of_format(self, case: Case, client: Any) -> tuple[str, Any, Any]:
        value = copy.deepcopy(case.value)
        if case.format == "AVRO":
            text = avro_schema(case.within)
            return text, lambda: AvroSerializer(client, text, conf=dict(_CONF)), value
        if case.format == "JSON":
            text = json_schema(case.within)
            conf = {**_CONF, "validate": False}
            return text, lambda: JSONSerializer(text, client, conf=conf), value
        of = self._message(case.within)
        conf = {**_CONF, "use.deprecated.format": False}
        text = base64.b64encode(of.DESCRIPTOR.file.serialized_pb).decode()
        return text, lambda: ProtobufSerializer(of, client, conf=conf), of(**value)

    def _message(self, within: Any) -> Any:
        if within not in self._messages:
            name = f"shop{len(self._messages)}"
            pool = descriptor_pool.Default()
            pool.AddSerializedFile(protobuf_file(within, name).SerializeToString())
            found = pool.FindMessageTypeByName(f"{name}.Order")
            self._messages[within] = message_factory.GetMessageClass(found)
        return self._messages[within]


def _rule(rule: dict[str, Any]) -> Rule:
    return Rule(
        rule["name"], None, RuleKind[rule["kind"]], RuleMode[rule["mode"]], rule["type"],
        rule.get("tags"), None, rule["expr"], rule.get("onSuccess"), rule.get("onFailure"),
        rule.get("disabled", False),
    )  # fmt: skip


def main() -> None:
    """Print all answers."""
    logging.disable()
    CelExecutor.register()
    CelFieldExecutor.register()
    asker = Client()
    answers = {case.name: asker.answer(case, number) for number, case in enumerate(cases())}
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
