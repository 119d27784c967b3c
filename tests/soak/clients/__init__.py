"""Programs of the clients: `PROGRAM BOOTSTRAP RATE SCHEMAS PRODUCER...`, until the input ends.

A producer is `NAME,KIND,TOPIC,MIX` (`tests.soak.producers`); RATE is records a second of each;
SCHEMAS is how many schemas the registry has, the ids counted from 1. Lines that are printed are
those of `tests.soak.producer_reports`. A producer that cannot continue is closed, and created again
as its next run.
"""
