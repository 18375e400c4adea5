"""libibverbs and perftest, and programs that call it themselves."""
