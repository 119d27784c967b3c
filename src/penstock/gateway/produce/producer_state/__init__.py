"""The state of idempotent producers whose records are dropped by interceptors (KIP-905).

A broker accepts a batch of a producer only if its first sequence number follows the last number
that is stored (ProducerAppendInfo.java), and recognizes a retry by its exact range of sequence
numbers. A dropped record leaves a gap. So the sequence numbers of later batches are lowered by the
number of records that were dropped before them. The last batches are remembered: a retry is sent to
the broker with the same bytes as the first time, even if an interceptor returns something different
now.

Modules, in reading order:

- `producer`: one producer at one partition
    - `numbers`: arithmetic of sequence numbers
    - `batch`: a batch, its states and the legal transitions
    - `batches`: the last batches
    - `numbering`: their sequence numbers for the broker, lower by the dropped records before them
    - `earlier_batches`: whether a batch waits for an earlier batch
    - `history`, `at_broker`, `stored_at_leader`: what the broker has stored
    - `record_state`: the records that were written of it, and read
    - `other_decisions`: the decisions of another gateway about it
    - `state_machine`: the producer itself: the decisions about its batches
- `all_producers`: all of them, for the batches of requests
    - `arrivals`: the batches that are not decided
    - `producers_in_use`, `known_producers`: the producers, and what a restart knows of them
    - `broker_queries`, `leaders`: when the broker is queried, and what its response means
    - `held_batches`: the bytes for retries
    - `written_decisions`: which decisions other gateways have to know
    - `letters`: when dead letters are stored
    - `doubts`, `topics_with_state`: the topics whose batches need them
- `records`: the records that keep their state
    - `encoding`: their format
    - `writer`, `reader`: written before a batch is sent, and read from others
    - `fences`: which of them count
    - `kept`: those of producers that are not in use here, in the order of what their writers knew
- `opening`, `cluster`, `state_topic`: the topic that stores them
- `former_numbers`: a file of an earlier version, which is taken over
- `rollout`, `topic_losses`: changes of interceptors, and the topics that they are about
    - `presence`, `changes`, `last_interceptors`: announces them to other gateways

Guarantees, and why they hold:

- Each record that is not dropped is stored once, in order: to the broker it looks like a producer
  that never dropped anything.
- A client gets a success only for a batch that is stored or dropped, with all batches before it:
  clients take an acknowledgement to include all batches before it (librdkafka's implicit ack).
- A client gets a final error only if the broker or a policy returned one. Batches after an error
  get the response of a broker: a retriable error after a retriable one, and
  OUT_OF_ORDER_SEQUENCE_NUMBER after a final one.
- Outdated state counts too few dropped records. Then a sequence number is too high, and the broker
  refuses the batch. It could only fit by chance, where gateways that do not share their state serve
  one producer: each of them has to know which records the others have dropped.
"""
