"""Build the evidence of whole machines from a page of TOML, as a collector would write it."""
