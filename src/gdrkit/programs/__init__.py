"""Programs that send and receive GPU memory, a folder each: what it needs, its facts, rules and messages."""
