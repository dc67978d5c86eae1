"""A federation on Flower: three parties, secure sums, a SuperNode that is killed, a coordinator that is hostile."""

from __future__ import annotations

import base64
import datetime
import importlib
import inspect
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from federations import CONSENSUS, EXPOSURE, host_of, plan_of
from federations import run as in_one_process
from flower_canary import found_in
from flower_runs import FlowerRun, wait_for

from fairveil.federated import Coordinator, Inline, drive
from fairveil.federated.flower.certificates import (
    CLOCKS_APART,
    PUBLIC_KEY,
    SIGNATURE,
    TIMESTAMP,
    NodeKeys,
    make_node_key,
)
from fairveil.federated.flower.programs import HERE, REFUSED, environment, free_port, program
from fairveil.ledger import Ledger

pytestmark = [pytest.mark.flower, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # flwr imports click's
CANARY = "python:flower_canary.ROUNDS"
CLOCKS = ({"FAIRVEIL_CLOCK": "3600"}, {"FAIRVEIL_CLOCK": "-3600"})
"""Of two parties: an hour ahead, an hour behind; two hours apart from each other."""
IMPORT = re.compile(r"(from|import) ")
FLWR = re.compile(r"\s*(from|import) flwr\b")
POLICY = {**EXPOSURE["policy"], "schedule": {"name": "growing", "factor": 3.0, "first": 8}}
HOSTILE = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

open("{mark}-imported-" + __import__("os").environ.get("FAIRVEIL_COORDINATOR", "party").replace("/", "_"), "w").close()
app = ServerApp()
client = ClientApp()


@app.main()
def main(grid, context):
    asked = [Message(RecordDict({{"request": ConfigRecord({{"bytes": b"rows, please"}})}}), node, "query")
             for node in grid.get_node_ids()]
    replies = grid.send_and_receive(asked, timeout=400)
    with open("{mark}-replies", "w") as out:
        out.write(str([bytes(reply.content["answer"]["bytes"]) for reply in replies if not reply.has_error()]))


@client.query()
def steal(message, context):
    open("{mark}-stolen", "w").close()
"""


def in_process(folder: Path, facts: dict) -> list:
    """The same run without a transport."""
    plan = plan_of(**facts)
    sources = [CANARY, "environment", "environment"]
    hosts = [host_of(plan, index, folder, source) for index, source in enumerate(sources)]
    coordinator = Coordinator(plan, folder / "coordinator")
    drive(coordinator, Inline({host.index: host.answer for host in hosts}), clock=iter(range(10**6)).__next__)
    for one in (*hosts, coordinator):
        one.close()
    return hosts


def submit_hostile(run: FlowerRun, mark: Path) -> None:
    """What whoever holds the coordinator's machine can do: a run with a bundle of theirs."""
    home = run.folder / "coordinator" / "flower"
    app = run.folder / "hostile-app"
    (app / "carrier").mkdir(parents=True)
    (app / "carrier" / "__init__.py").write_text("")
    (app / "carrier" / "serverapp.py").write_text(HOSTILE.format(mark=mark))
    ours = home / "app" / "fairveil-federation" / "pyproject.toml"
    (app / "pyproject.toml").write_text(ours.read_text().replace("fairveil-federation", "hostile-app"))
    env = environment(home, f"{Path(sys.executable).parent}:/usr/bin:/bin")
    subprocess.run([program("flwr"), "run", str(app), "own"], env=env, check=True, capture_output=True, timeout=300)


def listening(port: int) -> set[str]:
    """Addresses that somebody listens on at a port, as the kernel tells."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {line[1] for line in lines[1:] if line[3] == "0A" and line[1].endswith(f":{port:04X}")}


def check_doors(run: FlowerRun) -> None:
    import httpx

    context = ssl.create_default_context(cafile=str(run.folder / "coordinator" / "trial" / "ca.pem"))
    with httpx.Client(verify=context, base_url=f"https://127.0.0.1:{run.port}", timeout=120) as client:
        for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task", "/", "/docs"):
            assert client.post(path).status_code == 404
    own = (run.folder / "coordinator" / "flower" / "config.toml").read_text()
    port = int(own.split("127.0.0.1:")[1].split('"')[0])
    assert listening(port) == {f"0100007F:{port:04X}"}  # 127.0.0.1 and nothing else


def stranger_is_refused(run: FlowerRun) -> str:
    """A SuperNode with a key that is in no plan; what it says when it gives up."""
    folder = run.folder / "stranger"
    folder.mkdir()
    make_node_key(folder / "node.key")
    authority = run.folder / "coordinator" / "trial" / "ca.pem"
    command = [
        program("flower-supernode"), f"--superlink=127.0.0.1:{run.port}", f"--root-certificates={authority}",
        f"--auth-supernode-private-key={folder / 'node.key'}", "--isolation=process", f"--port={free_port()}",
    ]  # fmt: skip
    done = subprocess.run(command, env=environment(folder, "/bin"), capture_output=True, text=True, timeout=400)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_a_federation_survives_a_killed_supernode_and_a_hostile_coordinator(tmp_path):
    facts = {"sums": "secure", "colluding": 1, "policy": POLICY}
    run, mark, start = FlowerRun(tmp_path / "flower", **facts), tmp_path / "mark", time.monotonic()
    try:
        run.coordinate()
        for name, more in zip(run.names, ({"FAIRVEIL_SOURCE": CANARY}, *CLOCKS), strict=True):
            run.join(name, **more)
        check_doors(run)
        wait_for("hello of all", lambda: all(run.alive(name) and run.answered(name) for name in run.names))
        run.kill("east", "supernode")
        before, at = run.answered("east"), time.monotonic()
        submit_hostile(run, mark)
        assert "Failed to activate" in stranger_is_refused(run)
        wait_for("east", lambda: run.alive("east") and run.answered("east") > before)
        load = os.getloadavg()[0]
        print(f"the killed SuperNode answered again after {time.monotonic() - at:.0f} s (load {load:.0f})")
        run.finish()
    finally:
        run.stop()
    print(f"wall {time.monotonic() - start:.0f} s, answers {[run.answered(name) for name in run.names]}")
    marks = sorted(file.name for file in tmp_path.glob("mark*"))
    assert not any("stolen" in name or "party" in name for name in marks), marks
    said = "".join(run.log(name) for name in run.names)
    assert "another bundle" in said
    for host, name in zip(in_process(tmp_path / "inline", facts), run.names):
        found = run.result(name)
        assert found["result"] == host.worker.result()
        for field, array in host.party.state.items():
            np.testing.assert_array_equal(np.array(found["state"][field]).reshape(array.shape), array, err_msg=field)
        with Ledger.open(run.folder / name / "ledger.db", simulated=True) as ledger:
            assert ledger.spent == host_spent(tmp_path / "inline" / name)
    assert found_in(run.folder / "coordinator") == []
    assert [str(file) for file in run.folder.glob("*.spill") if str(file) in found_in(run.folder)] == []


def host_spent(folder: Path):
    with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
        return ledger.spent


@pytest.mark.parametrize("sums", ["own", "secure"])
def test_nodes_have_the_weights_of_a_run_without_a_transport_through_a_killed_superlink(sums, tmp_path):
    facts = {"sums": sums, "algorithm": {**CONSENSUS["algorithm"], "rounds": 2}}
    run, start = FlowerRun(tmp_path / "flower", "consensus", **facts), time.monotonic()
    try:
        run.coordinate()
        for name in run.names:
            run.join(name)
        if sums == "secure":
            wait_for("hello of all", lambda: all(run.alive(name) and run.answered(name) for name in run.names))
            run.kill("coordinator", "superlink")
            before, at = {name: run.answered(name) for name in run.names}, time.monotonic()
            wait_for("all", lambda: all(run.answered(name) > before[name] for name in run.names))
            print(f"all parties answered again {time.monotonic() - at:.0f} s after the SuperLink was killed")
        run.finish()
    finally:
        run.stop()
    print(f"wall {time.monotonic() - start:.0f} s, a round {run.round_seconds():.1f} s")
    _, hosts = in_one_process(plan_of("consensus", **facts), tmp_path / "inline")
    for host, name in zip(hosts, run.names, strict=True):
        weights = np.array(run.result(name)["result"]["weights"])
        np.testing.assert_allclose(weights, host.party.weights, rtol=0, atol=1e-12)
        with Ledger.open(run.folder / name / "ledger.db", simulated=True) as ledger:
            assert ledger.spent == host_spent(tmp_path / "inline" / name)


# What is relied on ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module, name",
    [
        ("flwr.supernode.runtime.run_clientapp", "run_clientapp"),
        ("flwr.supernode.runtime.run_clientapp", "install_from_fab"),
        ("flwr.supernode.runtime.run_clientapp", "get_load_client_app_fn"),
        ("flwr.common.args", "add_args_flwr_app_common"),
        ("flwr.common.args", "try_obtain_flwr_app_token"),
        ("flwr.supercore.tls", "validate_and_resolve_root_certificates"),
        ("flwr.cli.build", "build_fab_from_disk"),
        ("flwr.supercore.constant", "TASK_TYPE_TO_COMMAND"),
        ("flwr.superlink.cli", "flower_superlink"),
        ("flwr.superlink.routers.fleet.node_auth", "TIMESTAMP_TOLERANCE"),
        ("flwr.superlink.routers.fleet.node_auth", "SYSTEM_TIME_TOLERANCE"),
    ],
)
def test_private_names_of_flwr_are_where_they_were(module, name):
    found = getattr(importlib.import_module(module), name, None)
    assert found is not None, (
        f"flwr has moved {module}.{name}: fairveil.federated.flower relies on it, read its docstring"
    )


def test_a_clientapp_is_loaded_through_the_names_that_the_pipe_replaces():
    from flwr.supernode.runtime import run_clientapp as runtime

    source = inspect.getsource(runtime.run_clientapp)
    first, loads = source.index("install_from_fab(fab.content"), source.index("get_load_client_app_fn(")
    assert first < loads < source.index("client_app(message=message"), "flwr loads a ClientApp in another way now"


def test_every_program_that_a_supernode_can_start_is_ours_or_refused():
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

    assert set(TASK_TYPE_TO_COMMAND.values()) - {"flwr-clientapp"} <= set(REFUSED), "flwr starts a new program"


def test_the_pipe_starts_a_clientapp_with_all_that_flower_gives_it():
    """What Flower's own program passes on, so that a new argument of theirs is not lost in ours."""
    from flwr.supernode.cli import flwr_clientapp as theirs
    from flwr.supernode.runtime import run_clientapp as runtime

    module = sys.modules[theirs.__module__]
    given = set(inspect.signature(runtime.run_clientapp).parameters)
    ours = (HERE / "pipe.py").read_text()
    assert all(f"{name}=" in ours for name in given), f"flwr-clientapp takes {sorted(given)} now"
    assert "add_args_flwr_app_common(parser=parser)" in inspect.getsource(module), (
        "flwr-clientapp reads other arguments"
    )


def test_the_pipe_loads_nothing_of_fairveil_and_no_numpy():
    """The process that starts once a message has none of the numerical stack; Flower's own has numpy."""
    code = "import sys; print(*(name for name, found in sys.modules.items() if getattr(found, '__file__', None)))"
    start = f"import runpy; runpy.run_path({str(HERE / 'pipe.py')!r}); {code}"
    done = subprocess.run([sys.executable, "-I", "-c", start], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    numerical = {"fairveil", "numpy", "scipy", "numba", "opendp", "dp_accounting", "pandas", "sqlalchemy", "alembic"}
    assert "flwr" in loaded
    assert not loaded & numerical
    imported = {line.split()[1].partition(".")[0] for line in (HERE / "pipe.py").open() if IMPORT.match(line)}
    assert imported <= set(sys.stdlib_module_names) | {"flwr", "__future__"}


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_flower_takes_a_node_whose_clock_is_an_hour_apart_once_its_tolerance_is_ours(ahead, monkeypatch):
    """What `superlink.py` sets is what Flower compares with; as it comes, such a node is refused."""
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes, sign_message
    from flwr.superlink.routers.fleet import node_auth
    from starlette.exceptions import HTTPException

    private, public = generate_key_pairs()
    node = node_auth.ActivateNodeRequest(public_key=public_key_to_bytes(public))
    moment = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead)).isoformat()
    values = (public_key_to_bytes(public), moment.encode(), sign_message(private, moment.encode()))
    names = [name.decode() for name in (PUBLIC_KEY, TIMESTAMP, SIGNATURE)]
    headers = {name: base64.b64encode(value).decode() for name, value in zip(names, values)} | {names[1]: moment}
    request = SimpleNamespace(headers=headers, state=SimpleNamespace(protobuf_request=node))
    with pytest.raises(HTTPException):
        node_auth.authenticate_node(request)
    for name in ("TIMESTAMP_TOLERANCE", "SYSTEM_TIME_TOLERANCE"):
        monkeypatch.setattr(node_auth, name, CLOCKS_APART)
    node_auth.authenticate_node(request)
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    style = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert NodeKeys([public.public_bytes(*style).decode()]).sent(encoded), "flwr names its headers otherwise now"


class HalfSent:
    """A SuperLink that has half of the reply of node 70, and waits for the other half; node 71 answers."""

    def __init__(self):
        self.over = threading.Event()

    def push_messages(self, messages):
        return [str(facts["dst_node_id"]) for _, facts in messages]

    def pull_messages(self, keys):
        if "70" in keys:
            self.over.wait(120)
            raise ConnectionError("the SuperLink has ended")
        content = {"answer": {"kind": 0, "bytes": b"here"}}
        return [SimpleNamespace(has_error=lambda: False, metadata=SimpleNamespace(src_node_id=71), content=content)]


def test_a_reply_that_broke_off_keeps_nobody_else_waiting(monkeypatch):
    """A SuperNode that is killed while it sends: Flower waits three minutes for the rest before it says so."""
    from fairveil.federated.flower import serverapp

    monkeypatch.setattr(serverapp, "Message", lambda record, **facts: (record, facts))  # has one in a run alone
    grid, (ours, theirs) = HalfSent(), socket.socketpair()
    ended = []

    def carry():
        with pytest.raises(ConnectionError):
            serverapp.carry(grid, theirs, 600.0)
        ended.append(True)

    thread = threading.Thread(target=carry)
    thread.start()
    ours.settimeout(60)
    for node in (70, 71):
        ours.sendall(serverapp.FRAME.pack(node, 0, 4) + b"ask?")
    assert ours.recv(100) == serverapp.FRAME.pack(71, 0, 4) + b"here"
    grid.over.set()
    thread.join(60)
    assert ended == [True]  # and one that fails ends the run, so that another is submitted
    ours.close()
    theirs.close()


def test_a_bundle_is_the_same_bytes_twice(tmp_path):
    from fairveil.federated.flower.bundle import bundle_digest, write_bundle

    digests = {bundle_digest(write_bundle(tmp_path / place / "fairveil-federation")) for place in ("a", "b")}
    assert len(digests) == 1


def test_the_lines_that_touch_flwr_are_few_and_in_one_place(repository):
    """All lines of every file that imports flwr, blank ones too."""
    files = [file for file in (repository / "src").rglob("*.py") if any(FLWR.match(line) for line in file.open())]
    assert {str(file.parent.relative_to(repository)) for file in files} == {"src/fairveil/federated/flower"}
    assert {file.stem for file in files} == {"bundle", "pipe", "serverapp", "superlink"}
    assert sum(len(file.read_text().splitlines()) for file in files) < 250
