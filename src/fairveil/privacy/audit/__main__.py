"""``python -m fairveil.privacy.audit [--secure]``: see `fairveil.privacy.audit.everything`."""

import sys

from fairveil.privacy.audit.everything import main

if __name__ == "__main__":
    sys.exit(main())
