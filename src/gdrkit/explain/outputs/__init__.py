"""What the outputs, files and logs in a pasted text show."""
