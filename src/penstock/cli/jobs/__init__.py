"""What the commands over stored records share: their topics, Spark or this process, and results."""
