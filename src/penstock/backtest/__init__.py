"""A backtest of policies: the verdicts that they would have had on a topic's latest records.

Policy workers judge stored batches as if their producers sent them now, with the code of
the gateway, deadlines included. Nothing is written. `excerpt` chooses the offsets,
`stored_batches` reads them, `judging` submits them, and `tally` counts the verdicts.
"""
