"""One script per library or driver that is asked: each runs in a child process and prints one record."""
