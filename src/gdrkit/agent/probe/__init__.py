"""One script per library or driver that is asked: each runs in a child process and prints one record.

`program` joins a script with what it imports of `native`, into the one text that runs, here as elsewhere.
"""
