"""Bytes on a connection <-> Kafka's messages: frames, headers, versions, encoding."""
