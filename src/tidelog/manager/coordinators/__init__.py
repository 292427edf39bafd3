"""Groups and transactions from the files of their coordinators, without a broker.

folding        the last records of the keys of a coordinator's topic
groups         members, committed offsets, lag                  transactions   open, hanging and aborted ones
partitioning   which partition of the topic a group or transactional id belongs to
tables         both over paths: `groups`, `transactions`
"""
