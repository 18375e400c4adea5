"""Proofs of the path that known bytes took: evidence, the table of known paths, and the verdict."""
