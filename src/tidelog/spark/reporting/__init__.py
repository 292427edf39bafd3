"""`tidelog report --spark`: the facts of a report, gathered in tasks."""
