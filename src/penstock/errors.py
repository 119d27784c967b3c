"""The tree of Penstock's exceptions::

    Exception
    ├── PenstockError
    │   ├── CommandError                 cli: ends a command with a text and an exit code
    │   ├── ConfigurationError           the file, or a class it names, is not usable
    │   │   ├── NotNowError              what it needs may be there in a minute
    │   │   └── WrongLineError           stored: a line of a file is not a record
    │   ├── MalformedError
    │   │   ├── MisfitError              spark: a value does not fit a column of a table
    │   │   ├── OversizeError            client: an HTTP server sends more than it may
    │   │   ├── ProxyHeaderError         gateway: what a connection begins with, without a header
    │   │   ├── UnreadableBatchError     client: a stored batch
    │   │   ├── UnreadableRecords        records: a batch cannot be read, so not judged
    │   │   ├── UnreadableTopicConfigsError  topics: a record of the topic of settings
    │   │   ├── UnwritableBatch          client: a stored batch that no broker would accept
    │   │   └── WireError                wire: the peer's bytes; its connection is closed
    │   │       └── TooManyEntriesError  wire: a request has more entries than it may have
    │   ├── PolicyMistakeError           engine: what a policy does while it judges columns
    │   │   ├── AnswerError              it returns what its interface does not allow
    │   │   └── ArrowMissingError        it reads Arrow arrays, and pyarrow is not installed
    │   └── UnavailableError
    │       ├── ArtifactError            Java, or what is fetched from a Maven repository
    │       ├── AuditTopicError          gateway: the topic of the audit trail
    │       ├── ClientError              client: requests to brokers
    │       │   ├── BrokerUnreachableError
    │       │   │   ├── ConnectionLostError
    │       │   │   └── NoAnswerError    the time of a caller was over
    │       │   ├── LoginError
    │       │   ├── ResponseError        a broker responded with an error code
    │       │   │   └── DeniedError
    │       │   ├── NotReadableYetError
    │       │   ├── LetterRefusedError   gateway: a dead letter topic does not take a letter
    │       │   │   └── LettersTooLargeError
    │       │   ├── TopicRecreatedError
    │       │   ├── TruncatedError
    │       │   ├── UnsupportedVersionError
    │       │   └── WriteError           what a writer raises
    │       │       ├── AbortedError
    │       │       ├── FencedError
    │       │       │   └── TakenOverError  a later run of the job
    │       │       ├── NotOpenError        its transactions ended before they were decided
    │       │       ├── RefusedBatchError
    │       │       ├── TooManyTasksError
    │       │       └── UnknownOutcomeError
    │       ├── ClusterError             the cluster, for the Spark commands
    │       │   └── NotDescribedError    cluster: a topic
    │       ├── CompactedTopicError      a topic that stores state of Penstock
    │       ├── LocalKafkaError          local: the Kafka of `penstock dev`
    │       ├── LostPlaceError           cluster: how far a job has come is not known any more
    │       ├── MetadataUnavailableError  gateway: the cluster does not return metadata
    │       ├── PostponedError           engine: a policy cannot decide about stored records now
    │       ├── NativeThreadsError       gateway: PENSTOCK_NATIVE_LANE, where it is not possible
    │       ├── RecordsLostError         stored: retention removed records before they were read
    │       ├── TokenError               client: no token of SASL OAUTHBEARER
    │       ├── SparkError               spark: a session or a job
    │       │   ├── OldCheckpointError   spark: a table has later micro-batches than a checkpoint
    │       │   ├── SharedTargetError    spark: another job writes to the same folder or table
    │       │   ├── LostTransactionsError  spark: the sink's, before they were committed
    │       │   ├── OrderLostError       spark: the rows of the sink are not in their order
    │       │   ├── RefusedRecordsError  spark: records without a sink
    │       │   └── SourceError          spark: a read of the data source
    │       └── UnreachableError         gateway: no broker responds
    ├── PolicyException                  public: what policies raise, by Kafka's names
    │   ├── InvalidRecordException
    │   ├── PolicyViolationException
    │   ├── ProduceRequestInterceptorSkipRecordException
    │   └── RetriableException           not now: what a policy needs is away
    │       ├── RegistryAwayException    policies: no URL of a schema registry responds
    │       └── UndecidableException     until what is judged by changes: stored records fail
    ├── ConnectError                     gateway: a connection to a broker is not opened
    ├── ContractError                    policies: a contract of ODCS cannot be used
    ├── EndedError                       gateway: a connection without a byte
    ├── EvaluationError                  policies: a rule has no result for a value
    ├── MetaschemaNeeded                 policies: a JSON Schema that jsonschema-rs judges
    ├── NotKnownError                    engine: it cannot be found out which files decide
    ├── NotNativeError                   gateway: rustls does not shake hands with a broker
    ├── NoAnswerError                    policies: one URL of a schema registry fails
    ├── PeerError                        gateway: another gateway does not answer as one does
    ├── SchemaError                      policies: a JSON Schema cannot be used
    └── UnreadableError                  policies: what a rule reads is of another format
    ConnectionError
    └── HandshakeError                   gateway: a handshake of TLS fails
    LookupError
    └── UnknownSchemaError               policies: a schema registry has no such schema
    ValueError
    ├── FlawError                        policies: the flaw of a Protobuf message
    ├── FramingError                     policies: a record without a schema id
    ├── InvalidRecords                   penstock._native: the bytes are not the records
    ├── InvalidSchemaError               policies: a schema of a registry cannot be used
    ├── InvalidTokenError                a response of a token endpoint, or a token
    ├── NotDecodedError                  policies: a value is not of its schema, or not JSON
    │   └── NotJsonError
    ├── MessageIndexError                policies: a Protobuf payload does not say what it holds
    ├── TooManyBlocksError               records: an lz4 frame has more blocks than are read
    ├── TooManyFieldsError               policies: a Protobuf message is not looked at further
    └── UnreadableAnswerError            policies: what no schema registry answers

Each is defined in the package that raises it; those of policies stand apart, since
`penstock.policy` imports nothing of ours.
"""


class PenstockError(Exception):
    """The base of all errors of Penstock. The message is for a user, or for the log."""


class MalformedError(PenstockError):
    """Bytes from outside are invalid. The message never contains them."""


class UnavailableError(PenstockError):
    """Something that Penstock needs does not respond, or responds with an error."""
