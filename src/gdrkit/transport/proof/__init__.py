"""Proofs of the route that known bytes took: evidence, the table of known routes, and the verdict."""
