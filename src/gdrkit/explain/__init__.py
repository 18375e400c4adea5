"""Judge a pasted text: which machine printed each line, what it proves, and what stays open."""
