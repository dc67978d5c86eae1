"""Requests made from the OpenAPI document: no answer is a server error, and every answer is a documented one."""

from __future__ import annotations

import even_blocks  # noqa: F401 - registers the policy of these tests
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from running_service import LOOP, listening_apart

from fairveil.loop import Store


@pytest.fixture(scope="module")
def contract(tmp_path_factory):
    place = f"sqlite:///{tmp_path_factory.mktemp('contract')}/store.db"
    store = Store.open(place)
    store.create(**LOOP).decide("e")
    store.close()
    with listening_apart(place) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


def strategies(contract):
    for found in contract.get_all_operations():
        operation = found.ok()
        yield f"{operation.method.upper()} {operation.path}", operation.as_strategy()


@pytest.mark.slow
def test_no_request_makes_the_service_fail(contract):
    wrong: list[str] = []
    asked = sum(_ask_all(name, strategy, wrong) for name, strategy in strategies(contract))
    assert not wrong, wrong[:3]
    assert asked >= 200


def _ask_all(name, strategy, wrong):
    """Ask with what the strategy makes; what is wrong is noted, so that one run shows all of it."""
    count = iter(range(10**6))

    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=strategy)
    def ask(case):
        known = case.path_parameters or {}
        if "loop" in known and case.method != "DELETE" and len(str(known["loop"])) % 3:
            case.path_parameters["loop"] = "trial"
        if next(count) % 4:
            case.headers = {key: value for key, value in (case.headers or {}).items() if key.lower() != "authorization"}
        response = case.call(timeout=30)
        documented = str(response.status_code) in case.operation.definition.raw["responses"]
        shaped = response.status_code < 400 or (
            "application/problem+json" in response.headers["content-type"]
            and response.json()["status"] == response.status_code
        )
        if response.status_code >= 500 or not documented or not shaped:
            wrong.append(f"{name}: {response.status_code} {response.text[:300]} for {str(case.body)[:300]}")

    ask()
    return next(count)
