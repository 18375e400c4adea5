"""Which way known bytes went: evidence, the table of what each way moves, and the judgement."""
