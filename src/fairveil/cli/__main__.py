"""`python -m fairveil.cli`."""

from fairveil.cli import main

main()
