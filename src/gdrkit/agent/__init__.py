"""What runs by itself on another machine: the collector and the probes. It imports nothing of ours."""
