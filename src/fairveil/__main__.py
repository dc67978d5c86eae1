"""`fairveil` and `python -m fairveil`: Ctrl-C is answered in a sentence also while the commands are being loaded."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line, which takes a second, and run it."""
    try:
        from fairveil import cli
    except KeyboardInterrupt:
        print("interrupted before anything began; give the same command again", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
