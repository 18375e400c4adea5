"""Which path the processes take that run now: the judgement of what `gdrkit.agent.running` recorded."""
