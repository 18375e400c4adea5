"""A pasted text: whose lines they are, which facts they establish, and what follows from them."""
