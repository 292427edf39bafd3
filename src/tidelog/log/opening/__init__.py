"""From the files of a directory to a log, after a clean shutdown and after a crash."""
