"""Drive every parser, fact and command in this process on altered input; `python -m tools.fuzz --help`.

An input breaks a parser if it raises anything that the parser does not document, and a fact if it raises
anything but EvidenceMissing. It breaks a command if it exits with a code that `gdr` does not define, or
with 70, "internal error". It breaks any of them if it takes too long or needs too much memory.
"""
