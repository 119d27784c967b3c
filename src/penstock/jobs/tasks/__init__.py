"""The tasks of a job over stored records: how they are cut, read, judged and written."""
