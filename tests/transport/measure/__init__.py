A_SHELL_FOR_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
SSH_CONNECTION="127.0.0.1 5 127.0.0.1 22" exec sh -c "$*"
"""
