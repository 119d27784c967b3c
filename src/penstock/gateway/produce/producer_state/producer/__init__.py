"""One producer at one partition: its batches, and their sequence numbers for the broker."""
