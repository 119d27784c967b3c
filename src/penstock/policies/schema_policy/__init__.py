"""Records judged by the schemas that a schema registry, or a file, has for a topic."""
