"""What tests on a log need, ours and those of programs built on it.

crash     a file system in memory that can be cut from power at any step
journal   what a power cut may leave of a history of calls
faults    a file system that refuses, or does half of, what it is asked
"""
