"""What tests on a log need, ours and those of programs built on it.

builders    logs for tests, told step by step
strategies  hypothesis strategies for records, batches, names and configurations
plugin      pytest fixtures: a store, a log, a Kafka broker
brokers     a Kafka broker for tests, in this process or in one of its own
crash       a file system in memory that can be cut from power at any step
journal     what a power cut may leave of a history of calls
faults      a file system that refuses, or does half of, what it is asked
"""
