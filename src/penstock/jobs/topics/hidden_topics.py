"""Topics that a glob matches, and that the principal may not describe: no list has them.

Kafka names them only in a response that needs no Describe on topics: DescribeLogDirs, which needs
Describe on the cluster. Otherwise, they are known only if an earlier run of a job has read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_log_dirs.v2.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v2.response import DescribeLogDirsResponse

from penstock.configuration.globs import is_glob
from penstock.kafka.client.errors import ClientError
from penstock.kafka.cluster.topic_names import existing, parse
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.cluster.offsets import Cluster


def hidden_topics(
    cluster: Cluster,
    topic_list: str,
    names: Collection[str],
    listed: Collection[str],
    *,
    without: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the topics that the globs of `--topic` match and that may not be described.

    Args:
        topic_list: The value of `--topic`.
        names: The names of topics that may exist.
        listed: The topics that are described.
        without: Topics that match no glob.

    Raises:
        ClusterError: The cluster does not answer.
    """
    globs = ",".join(filter(is_glob, parse(topic_list)))
    matching = set(existing(globs, names, without=without)) if globs else set()
    return tuple(sorted(cluster.hidden(matching.difference(listed))))


def logged_topics(connection: Connection) -> frozenset[str]:
    """Return the topics of which brokers have logs; none without Describe on the cluster."""
    names: set[str] = set()
    try:
        for node in connection.nodes():
            request = DescribeLogDirsRequest(topics=None)
            response = connection.send(node, request, DescribeLogDirsResponse)
            names.update(topic.name for folder in response.results for topic in folder.topics)
    except (ClientError, WireError):
        return frozenset(names)
    return frozenset(names)
