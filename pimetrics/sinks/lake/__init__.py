"""A lake: one export that many hosts write, in an object store, as plain Parquet.

    usage/date=2026-11-30/build-7-3f9c2a1b-0c7d....parquet    what a writer has of a day: its name, a hash of the file
    usage/date=2026-11-29/merged-51f0....parquet              small files of several writers, put together
    _writers/build-7-3f9c2a1b.json                            what it has exported, so that it sends only what changed

Nobody waits for anybody. A writer touches only its own files, and an object appears whole or not at all. Which rows
count follows from names alone (`layout.current`), in every moment: of a writer's files of a day the newest, and of a
merged file the rows of the writers that have no file of their own there. So a writer, a merge and a reader at the same
time, or killed half-way, never lose a row and never show one twice.
"""
