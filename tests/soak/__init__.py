"""The soak: all clients at once, for minutes or hours, while brokers, gateways, workers and
connections are killed.

    python -m tests.soak [--minutes 20] [--seed N]; make soak MINUTES=2 SEED=N

The value of every record has its producer, its expected outcome, and its number (`records`).
Programs of the clients (`clients/`) send them and print delivery reports (`producer_reports`). A
plan drawn from the seed (`plan`) has the faults of the stage (`stage`, `faults`, `topics`). In the
end all stored records are read back from the brokers, and judged (`judge`). The resources of the
gateways are sampled meanwhile (`samples`, `slopes`).
"""
