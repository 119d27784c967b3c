"""What the gateway remembers of idempotent producers whose records are dropped (KIP-905).

A broker takes a producer's batch only where its first sequence number follows the last one it
stored (ProducerAppendInfo.java), and knows a retry by its exact range of numbers. A dropped
record leaves a hole there. So the numbers of later batches are lowered by as many records as
were dropped before them, and the last batches are remembered: a retry goes to the broker as
what it was the first time, whatever an interceptor would say now.

Read downwards:

- `numbers`: arithmetic of sequence numbers
- `batch`: one batch; its states and their legal transitions
- `batches`: the last ones of one producer, and what they tell together
- `producer`: one producer at one partition, the state machine over its batches
- `producers`: all of them, within limits
- `encoding`: one of them as a record
- `local`, `cluster`: where records are kept, on this machine or in a topic of the cluster

What is promised, and why it holds:

- With this state each kept record is stored once, in order: the broker sees one producer that
  never dropped anything.
- A client is told success only of what is stored or dropped, with everything before it: clients
  take an acknowledgement as one for all batches before it (librdkafka's implicit ack).
- A client is told a final error only where the broker or a policy gave one; what stands behind
  an error is answered as a broker answers it: come again behind what comes again, and out of
  order behind what was refused for good.
- State that is older than the truth counts too few records as dropped. Then a number is too
  high, never too low: the broker refuses the batch, and nothing is stored twice or left out
  unseen.
"""
