"""The `tidelog` command: one module per command, all talking to one output interface (`cli.render.output`).

Start-up matters: a module that is imported for `tidelog --help` imports neither pyarrow, numpy nor rich;
commands import what they work with when they run.
"""
