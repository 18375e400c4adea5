"""Which way the processes go that run now: the judgement of what `gdrkit.agent.running` recorded."""
