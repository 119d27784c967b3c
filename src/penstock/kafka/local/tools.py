"""Kafka's own command line tools, run as a user would."""

from __future__ import annotations

import subprocess
from typing import Final

from penstock.kafka.artifacts import java
from penstock.kafka.local.broker import class_path

TOOLS: Final = {
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
}
"""Main classes by the names of the scripts that a Kafka download has."""


def run_tool(
    tool: str, *arguments: str, text_in: str | None = None, timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a tool and wait for it.

    Args:
        tool: One of `TOOLS`, or a main class.
        arguments: As on the command line.
        text_in: Its standard input.
        timeout_s: When to give up.

    Raises:
        ArtifactError: Java or Kafka is missing.
        subprocess.TimeoutExpired: It took too long; it has been ended.
    """
    return subprocess.run(
        [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
         "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
         "-cp", class_path(), TOOLS.get(tool, tool), *arguments],
        input=text_in,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )  # fmt: skip
