"""`python -m pimetrics`."""

from pimetrics.cli import main

main()
