"""One script per library or driver. Each runs in a child process and prints one JSON record.

`program` joins a script with the modules of `native` that it imports into the one text that runs.
"""
