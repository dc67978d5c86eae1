"""What stands in deploy/ fits the program: units, image, compose, manifests, alerts; and people whom a proxy names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from running_service import LOOP, Direct, bound, listening, token, until

from fairveil.errors import DependencyError, SpecError
from fairveil.loop import Store, trail
from fairveil.service.app import ROUTES, Service
from fairveil.service.metrics import spans, tracing
from fairveil.service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def options_of(words):
    return {word for word in words if word.startswith("--")}


def known_options():
    text = subprocess.run(
        [sys.executable, "-m", "fairveil.cli", "serve", "--help"], capture_output=True, text=True, check=True,
        env={"COLUMNS": "200", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), "TERM": "dumb"},
    ).stdout  # fmt: skip
    return set(re.findall(r"--[a-z-]+", text))


def test_every_option_in_deploy_exists():
    known, used = known_options(), set()
    unit = (DEPLOY / "fairveil.service").read_text()
    used |= options_of(re.search(r"ExecStart=(.*)", unit)[1].split())
    used |= options_of(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["one"]["command"])
    [deployment, *_] = yaml.safe_load_all((DEPLOY / "kubernetes" / "fairveil.yaml").read_text())
    used |= options_of(deployment["spec"]["template"]["spec"]["containers"][0]["args"])
    last = (DEPLOY / "Containerfile").read_text().splitlines()[-1]
    used |= options_of(re.findall(r'"([^"]+)"', last))
    assert used
    assert used <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_units_are_well_formed_and_little_exposed(tmp_path):
    place = tmp_path / "fairveil.service"
    text = (DEPLOY / "fairveil.service").read_text()
    place.write_text(text.replace("/opt/fairveil/bin/fairveil", sys.executable))
    found = subprocess.run(["systemd-analyze", "verify", str(place)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert not found.stderr.strip()
    asked = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(place)]
    rated = subprocess.run(asked, capture_output=True, text=True)
    assert rated.returncode == 0, rated.stdout[-300:]
    assert float(re.search(r"exposure level.*?: ([0-9.]+)", rated.stdout)[1]) <= 2.0


def test_the_image_copies_what_is_there_and_runs_without_rights():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
    verbs = {line.split()[0] for line in lines if re.match(r"[A-Z]+ ", line)}
    assert verbs <= {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    assert "USER 10001" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    assert any("/ready" in line for line in lines)


def test_compose_is_whole():
    table = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(table["services"]) == {"database", "one", "two", "proxy"}
    for name, service in table["services"].items():
        assert ("image" in service) != ("build" in service), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in table["volumes"] or (DEPLOY / source).exists(), volume
        secrets = [one if isinstance(one, str) else one["source"] for one in service.get("secrets", [])]
        assert set(secrets) <= set(table["secrets"])
    for one in ("one", "two"):
        assert table["services"][one]["read_only"]
        assert one in (DEPLOY / "Caddyfile").read_text()


def test_manifests_are_whole():
    """What they name is there: labels, ports, volumes, claims, routes of probes."""
    found = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes" / "fairveil.yaml").read_text())}
    assert set(found) == {"Deployment", "Service", "NetworkPolicy", "PersistentVolumeClaim"}
    spec = found["Deployment"]["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    assert spec["selector"]["matchLabels"] == found["Service"]["spec"]["selector"] == labels
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    [container] = pod["containers"]
    [port] = (one["containerPort"] for one in container["ports"])
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == port == Settings().port
    assert found["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"port": port}]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"] if "persistentVolumeClaim" in one]
    assert claims == [found["PersistentVolumeClaim"]["metadata"]["name"]]
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"] or spec["replicas"] == 1
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[name]["httpGet"]
        assert asked["port"] == port
        assert asked["path"] in {route.path for route in ROUTES}


def words_of(name):
    """The command of a service as deploy/ has it."""
    if name == "image":
        return re.findall(r'"([^"]+)"', (DEPLOY / "Containerfile").read_text().splitlines()[-1])
    if name == "compose":
        return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["one"]["command"]
    [deployment, *_] = yaml.safe_load_all((DEPLOY / "kubernetes" / "fairveil.yaml").read_text())
    return deployment["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize(
    ("name", "asked_as", "served"),
    [
        ("image", "127.0.0.1:8080", "localhost"),
        ("compose", "one:8080", "localhost"),
        ("kubernetes", "10.0.0.7:8080", "fairveil"),
    ],
)
def test_whoever_looks_after_processes_is_answered_by_address_and_others_by_name(store, name, asked_as, served):
    words = words_of(name)
    given = [words[at + 1] for at, word in enumerate(words) if word == "--allow-host"]
    settings = Settings(host=words[words.index("--host") + 1], behind_proxy=True, allow_host=tuple(given))
    http = Direct(Service(store, settings))
    for path in ("/ready", "/health"):
        assert http.get(path, headers={"host": asked_as}).status_code == 200
        assert http.get(path, headers={"host": asked_as, "origin": "https://elsewhere.example"}).status_code == 403
    assert http.get("/v1/loops", headers={"host": asked_as}).status_code == 400
    assert http.get("/v1/loops", headers={"host": served}).status_code == 401
    http.close()


NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MAIN = """daemon off;
pid {place}/pid;
error_log {place}/error.log;
events {{}}
http {{
    access_log off;
    {temporary}
    include {place}/site.conf;
}}
"""


@pytest.fixture
def through_nginx(tmp_path, certificate):
    """deploy/nginx.conf as it stands, but for ports and places, before two services on one store."""
    url, settings = f"sqlite:///{tmp_path}/store.db", {"behind_proxy": True, "trust_user": "X-Forwarded-User"}
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store.open(url)) for _ in range(2)]
        operate = token(stores[0], "operate", "decide")
        made = Settings(**settings, map=("staff=operate",), allow_host=("fairveil.example",))
        servers = [contextlib.ExitStack() for _ in stores]
        addresses = []
        for server, store in zip(servers, stores, strict=True):
            stack.enter_context(server)
            addresses.append(server.enter_context(listening(Service(store, made))))
        held, port = bound()
        stack.enter_context(held)
        site = (DEPLOY / "nginx.conf").read_text()
        for old, new in zip(("127.0.0.1:8080", "127.0.0.1:8081"), addresses, strict=True):
            site = site.replace(old, new.removeprefix("http://"))
        site = site.replace("listen 443", f"listen 127.0.0.1:{port}")
        for old, new in zip(("/etc/ssl/fairveil.pem", "/etc/ssl/fairveil.key"), certificate, strict=True):
            site = site.replace(old, new)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
        (tmp_path / "site.conf").write_text(site)
        (tmp_path / "nginx.conf").write_text(MAIN.format(place=tmp_path, temporary=temporary))
        process = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")])
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        http = stack.enter_context(httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, timeout=60,
                                                headers={"host": "fairveil.example"}))  # fmt: skip
        until(lambda: process.poll() is None and _answers(http))
        yield http, operate, servers


def _answers(http):
    with contextlib.suppress(httpx.TransportError):
        return http.get("/ready").status_code == 200
    return False


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_the_recipe_for_nginx_serves_two_processes_and_names_nobody(through_nginx):
    http, operate, servers = through_nginx
    assert http.post("/v1/loops", json=LOOP, headers=operate).status_code == 201
    asked = "/v1/loops/trial/decisions"
    replies = [http.post(asked, json={"event_id": f"e-{n}"}, headers=operate) for n in range(20)]
    assert {reply.status_code for reply in replies} == {201}
    sent = {"x-forwarded-user": "ann", "x-forwarded-groups": "staff"}
    assert http.get("/tokens", headers=sent).status_code == 401, "who comes from outside cannot say who they are"
    servers[0].close()  # one of the two is gone: what it was asked goes to the other
    again = [http.post(asked, json={"event_id": f"e-{n}"}, headers=operate) for n in range(20)]
    assert {reply.status_code for reply in again} == {200}
    assert [reply.json()["round"] for reply in again] == [reply.json()["round"] for reply in replies]
    assert http.post(f"{asked}/e-0/reward", json={"value": 1.0}, headers=operate).status_code == 200


def test_every_metric_of_the_alerts_is_served(trial):
    served = set(re.findall(r"^(?:# TYPE )?(fairveil_[a-z_]+)", trial.get("/metrics").text, re.MULTILINE))
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len(rules) >= 8
    for rule in rules:
        named = set(re.findall(r"fairveil_[a-z_]+", rule["expr"]))
        assert named <= served, rule["alert"]
        assert {"summary", "description"} == set(rule["annotations"])
    routes = re.findall(r'route="([^"]+)"', (DEPLOY / "alerts.yml").read_text())
    assert set(routes) <= {route.path for route in ROUTES}


def test_every_metric_of_the_dashboard_is_served_and_its_panels_do_not_overlap(trial):
    served = set(re.findall(r"^(?:# TYPE )?(fairveil_[a-z_]+)", trial.get("/metrics").text, re.MULTILINE))
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    taken = set()
    for panel in panels:
        assert set(re.findall(r"fairveil_[a-z_]+", panel["targets"][0]["expr"])) <= served, panel["title"]
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10


def test_every_alert_has_a_test_that_fires_it():
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((DEPLOY / "alerts_test.yml").read_text())["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert {rule["alert"] for rule in rules} == fired


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_alerts_fire():
    for verb in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        subprocess.run(["promtool", *verb], cwd=DEPLOY, check=True, capture_output=True)


def test_the_age_of_the_oldest_unsettled_round(trial, clock, service):
    def age():
        return float(re.search(r'settled_age_seconds\{loop="trial"\} ([0-9.]+)', trial.get("/metrics").text)[1])

    assert age() == 0.0
    trial.post("/v1/loops/trial/decisions", json={"event_id": "e"})
    clock.advance(30)
    assert age() == 30.0
    clock.advance(31)
    service.store.tick()
    assert age() == 0.0


def test_what_is_inside_stands_in_a_cyclonedx_document(tmp_path):
    """All that the service needs here and all that is bundled, once each, and every reference leads somewhere."""
    out = tmp_path / "sbom.json"
    subprocess.run([sys.executable, str(DEPLOY / "sbom.py"), str(out)], check=True)
    made = json.loads(out.read_text())
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", made["serialNumber"])
    names = {(part["purl"].split("/")[0], part["name"]) for part in made["components"]}
    assert {("pkg:pypi", name) for name in ("uvicorn", "numpy", "psycopg", "jinja2", "markupsafe")} <= names
    assert {("pkg:npm", "@observablehq/plot"), ("pkg:npm", "d3-array")} <= names
    assert made["metadata"]["component"]["name"] == "fairveil"
    known = [made["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in made["components"])]
    assert len(set(known)) == len(known)
    for part in made["components"]:
        assert part["type"] == "library"
        assert part["bom-ref"] == part["purl"]
        assert part["version"]
    for edge in made["dependencies"]:
        assert {edge["ref"], *edge["dependsOn"]} <= set(known)
    licences = (ROOT / "src/fairveil/service/pages/static/plot.licences.txt").read_text()
    assert sum(part["purl"].startswith("pkg:npm") for part in made["components"]) == licences.count("-" * 80) + 1


def test_the_budget_that_is_left_is_a_metric(trial, service, clock):
    declared = {**LOOP, "name": "spared", "groups": ["a", "b"], "reports": {"spare": 2.0}}
    assert trial.post("/v1/loops", json=declared).status_code == 201

    def left():
        return dict(re.findall(r'budget_left_ratio\{ledger="([a-z]+)"\} ([0-9.]+)', trial.get("/metrics").text))

    assert left() == {"spared": "1.0"}, "a ledger that covers its loop exactly keeps nothing, and that is normal"
    loop = service.store.loop("spared")
    for index in range(20):
        loop.decide(f"e-{index}", group="ab"[index % 2])
    clock.advance(61)
    service.store.tick()
    assert trial.post("/v1/loops/spared/releases", json={"kind": "fairness", "epsilon": 1.5}).status_code == 201
    assert left() == {"spared": "0.25"}


# Traces --------------------------------------------------------------------------------------------------------------

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_of_a_caller_is_the_request_in_log_and_problem(trial, caplog):
    caplog.set_level("INFO", "fairveil.service")
    trial.get("/v1/loops", headers={"traceparent": PARENT})
    assert PARENT.split("-")[1] in caplog.text
    refused = trial.get("/v1/loops/none", headers={"traceparent": PARENT})
    assert refused.json()["request"] == PARENT.split("-")[1]
    caplog.clear()
    for wrong in ("00-" + "0" * 32 + "-b7ad6b7169203331-01", "a canary", PARENT.upper(), PARENT + "x"):
        trial.get("/v1/loops", headers={"traceparent": wrong})
        assert wrong[3:20] not in caplog.text, "only what is well formed is logged"


class Recorder:
    """As a tracer of the SDK: spans with a name, attributes, a parent and two times."""

    def __init__(self):
        self.spans = []

    def start_span(self, name, **facts):
        self.spans.append({"name": name, **facts})
        return self

    def end(self, end_time):
        self.spans[-1]["end"] = end_time


def test_a_span_has_method_route_and_status_and_nothing_of_a_person(trial, service):
    from opentelemetry.trace import get_current_span

    seen = Recorder()
    service.traced = spans(seen)
    body = {"event_id": "canary-1", "subject": "canary-2"}
    trial.post("/v1/loops/trial/decisions", json=body, headers={"traceparent": PARENT})
    trial.get("/v1/loops/trial?canary=3")
    trial.get("/v1/loops/trial/decisions/canary-1")
    first, second, third = seen.spans
    assert first["name"] == "POST /v1/loops/{loop}/decisions"
    assert first["attributes"]["http.response.status_code"] == 201
    assert f"{get_current_span(first['context']).get_span_context().trace_id:032x}" == PARENT.split("-")[1]
    assert second["context"] is None
    assert first["start_time"] < first["end"]
    assert "canary" not in str([span["attributes"] for span in seen.spans]) + str([span["name"] for span in seen.spans])
    assert third["attributes"]["http.route"].endswith("/decisions/{event}")


def test_traces_are_sent_when_the_standard_variables_ask_for_it(monkeypatch):
    assert tracing({}) is None
    assert tracing({"OTEL_TRACES_EXPORTER": "none"}) is None
    assert tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}) is None
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(DependencyError, match="not installed"):
        tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})


# People whom a proxy names -------------------------------------------------------------------------------------------


@pytest.fixture
def proxied(store):
    """Behind a stand-in of oauth2-proxy: it sends X-Forwarded-User and X-Forwarded-Groups."""
    mapped = ("clinic-ops=operate", "auditors=audit")
    client = Direct(Service(store, Settings(behind_proxy=True, trust_user="X-Forwarded-User", map=mapped)))
    yield client
    client.close()


def named(user, *groups):
    return {"x-forwarded-user": user, "x-forwarded-groups": ",".join(groups)}


def test_groups_of_a_proxy_are_roles(proxied):
    ann, ben, eve = named("ann@example.org", "staff", "clinic-ops"), named("ben", "auditors"), named("eve", "staff")
    assert proxied.get("/tokens", headers=ann).status_code == 200
    assert "ann@example.org" in proxied.get("/", headers=ann).text
    assert proxied.get("/ledgers", headers=ann).status_code == 403
    assert proxied.get("/ledgers", headers=ben).status_code == 200
    refused = proxied.get("/", headers=eve)
    assert refused.status_code == 403
    assert "none of your groups" in refused.text
    assert proxied.get("/").status_code == 401, "without the header nobody is anybody, although no token exists"
    assert proxied.get("/v1/loops").status_code == 401
    assert proxied.get("/v1/loops", headers=ann).status_code == 401, "programs send tokens"


def test_forms_of_people_whom_a_proxy_names_are_bound_to_them(proxied):
    ann, ben = named("ann", "clinic-ops"), named("ben", "clinic-ops")
    field = re.search(r'name="form" value="([0-9a-f]+)"', proxied.get("/tokens", headers=ann).text)[1]
    form = {"form": field, "do": "add", "name": "x", "role": "operate"}
    assert proxied.post("/tokens", headers=ben, data=form).status_code == 403
    assert "shown once" in proxied.post("/tokens", headers=ann, data=form).text
    with proxied.service.store.reading() as tx:
        assert trail.entries(tx)[-1]["actor"] == "ann"


@pytest.mark.parametrize(
    "options",
    [{"trust_user": "X-User"}, {"trust_user": "X-User", "behind_proxy": True, "host": "0.0.0.0"}, {"map": ("a=boss",)}],
)
def test_a_header_is_not_trusted_where_anybody_could_send_it(options):
    with pytest.raises(SpecError):
        Settings(**options)
