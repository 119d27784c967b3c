"""The records that keep the state of producers: their format, and the order in which they count."""
