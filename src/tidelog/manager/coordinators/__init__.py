"""Groups and transactions from the files of their coordinators, without a broker.

folding        the last records of the keys of a coordinator's topic
groups         members, committed offsets, lag                  transactions   open, hanging and aborted ones
tables         both over paths: `read_group_table`, `read_transaction_table`
"""
