"""The ClientApp of a party, a program of its own: bytes of a message go to `join`, its answer goes back.

Run by file, so that nothing of fairveil is imported. Nothing of the bundle is unpacked, imported or run: its digest
goes along, and `join` refuses another one than the plan's. Whatever goes wrong leaves as a fixed word.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import struct
import sys
import traceback
from types import ModuleType
from typing import Any


class Absent(ModuleType):
    """In the place of numpy, which Flower imports for arrays; none travels here, and its names are in annotations."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__class_getitem__": classmethod(lambda found, _: found)})


sys.modules["numpy"], sys.modules["numpy.typing"] = absent = Absent("numpy"), Absent("numpy.typing")
absent[0].typing = absent[1]  # type: ignore[attr-defined]

from flwr.app import ConfigRecord, Context, Message, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.common.args import add_args_flwr_app_common, try_obtain_flwr_app_token  # noqa: E402
from flwr.supercore.tls import validate_and_resolve_root_certificates  # noqa: E402
from flwr.supernode.runtime import run_clientapp as runtime  # noqa: E402

AWAY = b"away: the process of this party does not answer"
HEAD = struct.Struct("<32sQ")
REPLY = struct.Struct("<BQ")
bundle = bytes(32)
app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Pass a request on; an error is written down here and never sent."""
    try:
        kind, content = passed_on(bytes(message.content["request"]["bytes"]))
    except Exception:  # of whatever kind: its words stay in this process
        traceback.print_exc()
        kind, content = 1, AWAY
    record = ConfigRecord({"kind": kind, "bytes": content})
    reply = Message(RecordDict({"answer": record}), reply_to=message)
    reply.metadata.created_at, reply.metadata.ttl = message.metadata.created_at, message.metadata.ttl
    return reply  # dated by the coordinator's clock: by one that is ahead it would be dead already


def passed_on(request: bytes) -> tuple[int, bytes]:
    """Over the socket in the party's folder, which is this process' working directory."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(float(os.environ["FAIRVEIL_TIMEOUT"]))
        line.connect("pipe")
        line.sendall(HEAD.pack(bundle, len(request)) + request)
        with line.makefile("rb") as reader:
            kind, length = REPLY.unpack(reader.read(REPLY.size))
            content = reader.read(length)
    if len(content) != length:
        raise ConnectionError("cut off")
    return kind, content


def look_at_bundle(content: bytes, **_: Any) -> None:
    """In place of unpacking: only the digest is taken."""
    global bundle
    bundle = hashlib.sha256(content).digest()


def main() -> None:
    """What `flwr-clientapp` does; its module would load the SuperNode with its databases, twice the time to start."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime-api-address", required=True)
    add_args_flwr_app_common(parser)
    given = parser.parse_args()
    runtime.install_from_fab = look_at_bundle
    runtime.get_load_client_app_fn = lambda **_: lambda *_: app
    runtime.run_clientapp(
        runtime_api_address=given.runtime_api_address,
        token=try_obtain_flwr_app_token(given),
        insecure=given.insecure,
        certificates=validate_and_resolve_root_certificates(given.root_certificates, given.insecure),
        parent_pid=given.parent_pid,
        runtime_dependency_install=False,
    )


if __name__ == "__main__":
    main()
