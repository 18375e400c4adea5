"""Makes whole machines out of a page of TOML: what a collector would have brought home from them."""
