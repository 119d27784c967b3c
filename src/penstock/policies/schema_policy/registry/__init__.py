"""What is asked of a schema registry, and what is kept of its answers."""
