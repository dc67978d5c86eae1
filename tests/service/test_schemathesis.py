"""Requests made from the OpenAPI document: no answer is a server error, and every answer is a documented one."""

from __future__ import annotations

import even_blocks  # noqa: F401 - registers the policy of these tests
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from running_service import LOOP, listening

from fairveil.loop import Store
from fairveil.service.app import Service
from fairveil.service.settings import Settings


@pytest.fixture(scope="module")
def contract(tmp_path_factory):
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('contract')}/store.db")
    store.create(**LOOP).decide("e")
    with listening(Service(store, Settings())) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")
    store.close()


def strategies(contract):
    for found in contract.get_all_operations():
        operation = found.ok()
        yield f"{operation.method.upper()} {operation.path}", operation.as_strategy()


def test_no_request_makes_the_service_fail(contract):
    answers = [name for name, strategy in strategies(contract) for name in _ask_all(name, strategy)]
    assert len(answers) >= 200


def _ask_all(name, strategy):
    asked = []

    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=strategy)
    def ask(case):
        known = case.path_parameters or {}
        if "loop" in known and case.method != "DELETE" and len(str(known["loop"])) % 3:
            case.path_parameters["loop"] = "trial"
        if len(asked) % 4:
            case.headers = {key: value for key, value in (case.headers or {}).items() if key.lower() != "authorization"}
        response = case.call(timeout=30)
        asked.append(name)
        assert response.status_code < 500, (name, response.text)
        if response.status_code >= 400:
            assert "application/problem+json" in response.headers["content-type"], name
            assert response.json()["status"] == response.status_code
        assert str(response.status_code) in case.operation.definition.raw["responses"], (name, response.text)

    ask()
    return asked
