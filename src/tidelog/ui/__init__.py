"""A log directory in a browser, live and read-only: `tidelog ui`.

    server    sockets and threads: HTTP bytes -> Request, Response -> HTTP bytes
    guard     who may ask: Host, Origin, token, method
    routes    which handler answers which path
    site      the handlers: the page, its facts, the partitions, records, one record
    query     a query string -> what is wanted, checked
    records   what is wanted -> records of one partition, in bounded time and memory
    forms     one record in every form that it can be shown in
    commands  the `tidelog` commands that do the same
    watching  facts that are gathered again only if files have changed

Each handler is a function from a `Request` to a `Response`. Nothing here opens a file for writing.
"""
