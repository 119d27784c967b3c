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
    - `batches`: the last batches of one producer
    - `producer`: the state machine over its batches
- `producers`: all producers, within limits
- `records`: the records that keep their state
    - `encoding`: their format
    - `fences`: which of them count
    - `kept`: those of producers that are not in use here, in the order of what their writers knew
- `local`, `cluster`, `state_topic`: the stores for records, on this machine or in a topic
- `presence`: finds gateways that do not share their state

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
