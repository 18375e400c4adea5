"""The collector and the probes, which also run on machines without gdrkit. They import no other package."""
