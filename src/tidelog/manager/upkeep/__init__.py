"""Work on roots and partitions at rest: recover, reindex, compact, retain, trim.

recovery         a root or a partition, recovered; `cuts`: why a log was cut; `kept_aside`: what was cut off
rehearsal        work done in memory over another file system
reindexing       index files from the log; `reindex_pieces`: of a large segment, in pieces
compacting       a root's compacted topics or one partition; `compaction_plans`: what it would do
retention_plan   what retention would delete
trimming         the oldest records, up to an offset or a time; `moments`: times as people write them
salvaging        what is sound of damaged partitions, into a new root
"""
