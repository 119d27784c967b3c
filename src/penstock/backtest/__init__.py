"""A backtest of policies: what they would have done to the records that topics got lately.

Stored batches are given to policy workers as if their producers sent them now, by the code that
the gateway runs, deadlines included. Nothing is written. `excerpt` says which offsets are read,
`stored_batches` reads them, `judging` has them judged, and `tally` counts what came of it.
"""
