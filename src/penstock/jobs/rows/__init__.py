"""Records as rows with the columns of Kafka: judged, and written to topics and folders."""
