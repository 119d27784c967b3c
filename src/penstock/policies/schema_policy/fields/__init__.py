"""The fields that a schema declares: their names, types, tags and inline rules."""
