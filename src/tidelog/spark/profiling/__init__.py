"""`profile`: what is in topics, by partition and hour."""
