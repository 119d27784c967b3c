"""The worker as a process: how it starts, what runs inside, and how it ends."""
