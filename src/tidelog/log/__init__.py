"""One partition as Kafka keeps it: append, read, roll, truncate, recover."""
