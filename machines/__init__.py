"""Whole machines with planted faults, as evidence that gdrkit judges without knowing who made it.

    python -m machines --seed 7 --count 1000       the table of what gdrkit gets right
    python -m machines --seed 7 --number 12 -v     one machine, with its truth and gdrkit's answer

A seed gives a healthy machine (draw.py), faults are planted in it (faults/), and the truth follows from the
description alone (truth.py). compose.py writes what a collector would find on it: sysfs, procfs, modules as
signed ELF files, the tables of depmod. Nothing here imports gdrkit, except judge.py, which calls its command
line; so a misunderstanding on one side shows as a difference."""
