"""Kafka's message formats outside of record batches: bytes in, values out. Nothing here opens a file.

primitives            numbers, compact strings and arrays, tags
notation              a message format in one line; decoding by it
control_records       what Kafka writes into logs for itself: transaction markers, Raft's records
metadata_records      the records of KRaft's metadata log that tidelog reads and writes
metadata_formats, coordinator_formats
                      tables in the notation: all records of the metadata log and the coordinators' topics
"""
