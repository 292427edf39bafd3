"""From the files of a directory to a log, after an orderly stop and after a crash."""
