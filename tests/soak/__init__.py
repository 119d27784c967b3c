"""The soak: all clients at once, for minutes or hours, while everything is killed that can be.

    python -m tests.soak [--minutes 20] [--seed N]; make soak MINUTES=2 SEED=N

Every record tells in its own value who sent it, what is to become of it, and its number
(`records`). Programs of the clients (`clients/`) send them and write down what they were told
(`told`). A plan drawn from the seed (`plan`) says what is done to the stage (`stage`, `faults`,
`topics`). In the end all that is stored is read back from the brokers, and judged (`judge`). What
the gateways use is sampled meanwhile (`samples`, `slopes`).
"""
