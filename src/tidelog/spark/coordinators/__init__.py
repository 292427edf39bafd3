"""Groups and transactions from the files of their coordinators, as frames."""
