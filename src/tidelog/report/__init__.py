"""A log directory as facts (`facts.gather`) and as a page that needs nothing else (`page.page`)."""
