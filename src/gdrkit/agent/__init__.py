"""The collector and the probes, which also run on machines without gdrkit: they import nothing else of
it."""
