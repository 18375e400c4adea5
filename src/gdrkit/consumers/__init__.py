"""What each program needs to put GPU memory on the wire: one table per program, and its name in names.py."""
