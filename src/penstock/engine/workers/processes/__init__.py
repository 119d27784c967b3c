"""The worker as a process: its start, its work, and its end."""
