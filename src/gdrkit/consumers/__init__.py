"""What each program needs to send and receive GPU memory: one table per program, with its name in
names.py."""
