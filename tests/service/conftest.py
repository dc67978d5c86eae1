from __future__ import annotations

import shutil
import subprocess

import even_blocks  # noqa: F401 - registers the policy of these tests
import pytest
from running_service import LOOP, PATIENT, Direct

from fairveil.loop import ManualClock, Store
from fairveil.service.app import Service


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(tmp_path, clock):
    with Store.open(f"sqlite:///{tmp_path}/store.db", clock=clock) as found:
        yield found


@pytest.fixture
def service(store):
    return Service(store, PATIENT)


@pytest.fixture
def http(service):
    client = Direct(service)
    yield client
    client.close()


@pytest.fixture
def trial(http):
    assert http.post("/v1/loops", json=LOOP).status_code == 201
    return http


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    names = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-out", str(names[0]), "-keyout", str(names[1])]
    subprocess.run(command, check=True, capture_output=True)
    return tuple(map(str, names))
