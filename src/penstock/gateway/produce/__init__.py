"""Produce requests: judged, intercepted, sent on, answered.

A request without policies is forwarded at once (`forwarded_at_once`). Otherwise `produce_exchange`
has the steps: `lookups` finds the plans of topics, `submission` gives batches to workers,
`verdicts` applies what they return, `send_order` and `missing_batches` keep a batch back whose
producer has to retry an earlier batch first. `intercepted` has the batches that may be changed,
`producer_state` their sequence numbers, `dead_letters` stores letters.
"""
