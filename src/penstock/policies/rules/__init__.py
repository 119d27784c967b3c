"""`Rules`: conditions in CEL over the parts of a record, or over a batch."""
