"""How tasks run on Spark: slots, memory, progress, and the errors of workers."""
