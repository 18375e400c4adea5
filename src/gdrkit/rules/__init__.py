"""Rules about the machine, one code each: what is wrong with it, and what that takes away."""
