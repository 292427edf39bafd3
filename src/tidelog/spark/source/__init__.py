"""`format("tidelog")`: reads and streams.

data_source, batch, streaming  the data source and its readers   schemas         its columns
options, java_patterns         its options                       offsets         options -> ranges of offsets
topic_ids                      topics that were recreated        data_loss       what failOnDataLoss decides
plans                          what a query would read           trigger_limits  how much a micro-batch takes
"""
