"""What the commands of a machine print: the text form of its evidence, for `gdr explain`.

Made from the tree of a bundle, a sosreport or a machine, as files on disk. Nothing of gdrkit is used.
"""
