"""`flower-superlink` for parties whose clocks are an hour apart from ours; run by file, its arguments after the hour.

Flower takes a node's signed time as its proof for 5 minutes, and for 5 seconds of a clock that is ahead. What is sent
over TLS to the front is read by nobody else, and statements are signed by other keys: a longer proof gives nothing.
"""

import sys

from flwr.superlink.cli import flower_superlink
from flwr.superlink.routers.fleet import node_auth

if __name__ == "__main__":
    node_auth.TIMESTAMP_TOLERANCE = node_auth.SYSTEM_TIME_TOLERANCE = float(sys.argv.pop(1))
    flower_superlink()
