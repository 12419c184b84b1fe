"""`python -m workers`: the command line, for child processes that must use this interpreter."""

from workers.cli import main

main()
