"""The tree of Penstock's exceptions::

    Exception
    ├── PenstockError
    │   ├── CommandError                 cli: ends a command with a text and an exit code
    │   ├── ConfigurationError           the file, or a class it names, is not usable
    │   ├── MalformedError
    │   │   ├── UnreadableRecords        records: a batch cannot be read, so not judged
    │   │   ├── UnreadableTopicConfigsError  topics: a record of the topic of settings
    │   │   └── WireError                wire: the peer's bytes; its connection is closed
    │   └── UnavailableError
    │       ├── ArtifactError            Java, or what is fetched from a Maven repository
    │       ├── ClusterError             the cluster, for the Spark commands
    │       ├── CompactedTopicError      a topic in which Penstock keeps something
    │       ├── LocalKafkaError          local: the Kafka of `penstock dev`
    │       ├── LocalStoreError          gateway: the file that keeps producers
    │       ├── SparkError               spark: a session or a job
    │       ├── MetadataUnavailableError gateway: the cluster does not return metadata
    │       └── UnreachableError         gateway: no broker answers
    └── PolicyException                  public: what policies raise, by Kafka's names
        ├── InvalidRecordException
        ├── PolicyViolationException
        └── ProduceRequestInterceptorSkipRecordException

Each is defined in the package that raises it; those of policies stand apart, since
`penstock.policy` imports nothing of ours.
"""


class PenstockError(Exception):
    """Anything that Penstock itself raises. The text is for a user, or for the log."""


class MalformedError(PenstockError):
    """Bytes from outside are not what they have to be. The text never holds what they hold."""


class UnavailableError(PenstockError):
    """Something that Penstock needs does not answer, or not as asked."""
