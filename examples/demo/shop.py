"""The configuration of the demo, with the files that it names."""

from pathlib import Path

import payments

HERE = Path(__file__).resolve().parent
CONFIGURATION = """\
upstream.bootstrap.servers={kafka}
listeners=PLAINTEXT://127.0.0.1:{port}
record.validator.classes=key_required.KeyRequired
record.validation.policy.class.name=penstock.policies.SchemaPolicy
topics.orders*.confluent.value.schema.validation=true
topics.orders*.schema.file=order.schema.json
topics.payments.confluent.value.schema.validation=true
topics.payments.schema.file=payment.avsc
create.topic.policy.class.name=penstock.policies.TopicRules
topic.rules.partitions.max=12
"""


def write_files(folder: Path, kafka: str, port: int) -> Path:
    """Write a configuration into a folder, with policies and schemas; return its file.

    Args:
        folder: An empty folder.
        kafka: The bootstrap servers of Kafka.
        port: The port of the gateway.
    """
    schemas = (HERE / name for name in ("order.schema.json", payments.SCHEMA_FILE))
    for path in (*(HERE.parent / "policies").glob("*.py"), *schemas):
        (folder / path.name).write_text(path.read_text())
    file = folder / "penstock.properties"
    file.write_text(CONFIGURATION.format(kafka=kafka, port=port))
    return file
