"""The documents of `gdr doctor` and `gdr fix` and their renderings, and text rendering for every feature."""
