"""Names, validated configuration and the one error shape."""

import dataclasses
import pickle
import subprocess
import sys
from typing import Literal

import pytest

from fairveil import contents, errors, plugins, registry
from fairveil.bandits.protocol import Policy
from fairveil.configuration import configuration, describe
from fairveil.errors import ContractError, FairveilError, SpecError
from fairveil.fields import Count, Delta, Epsilon, Vector
from fairveil.registry import build, register


@configuration
class Thing:
    """A thing for tests."""

    arms: Count
    epsilon: Epsilon
    delta: Delta = 1e-5
    means: Vector = (0.1, 0.2)


@pytest.fixture(autouse=True)
def thing():
    register("policy", "test-thing")(Thing)


@pytest.mark.parametrize(
    "epsilon", [0, 0.0, -1.0, 5e-324, 1e-7, float("nan"), float("inf"), -float("inf"), "1", None, True, [1.0], 1e7]
)
def test_bad_budgets_fail_closed_and_name_the_field(epsilon):
    for make in (
        lambda: Thing(arms=2, epsilon=epsilon),
        lambda: build("policy", {"name": "test-thing", "arms": 2, "epsilon": epsilon}, "policy"),
    ):
        with pytest.raises(SpecError) as caught:
            make()
        assert caught.value.path.endswith("epsilon")
        assert caught.value.allowed


@pytest.mark.parametrize("delta", [0, 0.0, 1, 1.0, 1.5, -1e-9, float("nan"), float("inf"), "0.1"])
def test_bad_deltas_fail_closed(delta):
    with pytest.raises(SpecError) as caught:
        Thing(arms=2, epsilon=1.0, delta=delta)
    assert caught.value.path == "delta"


def test_build_and_describe_are_inverse():
    made = build("policy", {"name": "test-thing", "arms": 2, "epsilon": 1, "means": [0.5, 0.6]}, "policy")
    assert made.means == (0.5, 0.6)
    assert describe(made) == {"name": "test-thing", "arms": 2, "epsilon": 1.0, "delta": 1e-5, "means": [0.5, 0.6]}
    assert build("policy", describe(made), "policy") == made


def test_configurations_are_frozen():
    made = Thing(arms=2, epsilon=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.arms = 3
    assert made.arms == 2


@pytest.mark.parametrize(
    ("table", "path", "word"),
    [
        ({"name": "test-thing", "arms": 2, "epsilon": 1.0, "epsilom": 2}, "policy.epsilom", "epsilon"),
        ({"name": "test-thing", "epsilon": 1.0}, "policy.arms", "required"),
        ({"name": "test-thin"}, "policy.name", "test-thing"),
        ({}, "policy.name", "no name"),
        (["test-thing"], "policy", "table"),
        ({"name": "test-thing", "arms": 2, "epsilon": 1.0, "means": ["a"]}, "policy.means.0", "number"),
    ],
)
def test_errors_name_the_path_and_the_remedy(table, path, word):
    with pytest.raises(SpecError) as caught:
        build("policy", table, "policy")
    assert caught.value.path == path
    assert word in str(caught.value)


def test_a_name_belongs_to_one_thing():
    class Other:
        """Another thing."""

    with pytest.raises(SpecError, match="already taken"):
        register("policy", "test-thing")(Other)


ALL_ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, FairveilError)]


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_every_error_has_one_shape_and_survives_a_worker(kind):
    problem = kind("it broke", path="a.b", given=[1] * 100, allowed="less", fix="do less")
    again = pickle.loads(pickle.dumps(problem))
    assert type(again) is kind
    assert again.to_dict() == problem.to_dict()
    assert set(problem.to_dict()) == {"error", "message", "path", "given", "allowed", "fix"}
    assert len(problem.to_dict()["given"]) <= 120
    assert kind.exit_code != 0


def test_error_codes_are_distinct():
    assert len({kind.code for kind in ALL_ERRORS}) == len(ALL_ERRORS)


def test_every_entry_has_a_summary():
    for entry in registry.entries():
        assert entry.summary, f"{entry.kind} {entry.name} has no docstring"


def test_plugins_that_are_wrong_say_so(tmp_path):
    with pytest.raises(SpecError, match="does not exist"):
        plugins.load_file(tmp_path / "nothing.py")
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(SpecError, match="ZeroDivisionError"):
        plugins.load_file(tmp_path / "broken.py")
    assert not any("broken" in plugin for plugin in plugins.files())
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)")
    with pytest.raises(SpecError, match="SystemExit"):
        plugins.load_file(tmp_path / "leaves.py")
    with pytest.raises(SpecError, match="is a folder"):
        plugins.load_file(tmp_path)


def test_an_installed_plugin_that_fails_is_named(monkeypatch):
    from importlib import metadata

    broken = metadata.EntryPoint("mine", "no_such_package_at_all:thing", "fairveil.plugins")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [broken])
    monkeypatch.setattr(registry, "_loaded", set())
    for _ in range(2):  # the second time too: half a registry does not pass for a whole one
        with pytest.raises(SpecError, match=r"fairveil.plugins:mine: .*ModuleNotFoundError.*uninstall"):
            registry.load()


def ours():
    """Every registered configuration of this package."""
    return [
        entry
        for entry in registry.entries()
        if dataclasses.is_dataclass(entry.target) and entry.target.__module__.startswith("fairveil.")
    ]


def test_whatever_a_spec_can_name_has_an_example():
    for entry in ours():
        made = registry.example(entry.target)
        assert made is not None, f"{entry.kind} {entry.name}"
        assert describe(made)["name"] == entry.target.name


def test_every_parameter_of_everything_is_described():
    bare = [
        f"{entry.kind}:{entry.name}.{field.name}"
        for entry in ours()
        for field in dataclasses.fields(entry.target)
        if field.init and not field.metadata.get("description")
    ]
    for entry in registry.entries("task"):
        if entry.target.__module__.startswith("fairveil."):
            keys = entry.target.Spec.model_fields
            bare += [f"task:{entry.name}.{key}" for key, field in keys.items() if not field.description]
    assert not bare, bare


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (-1, "the value is out of range; given -1; allowed: at least 1e-06; choose a value in this range"),
        ("many", "the value is of the wrong kind; given 'many'; allowed: a number; write a number"),
        ("1.5", "the value is of the wrong kind; given '1.5'; allowed: a number; write it without quotes"),
        (float("nan"), "the value is of the wrong kind; given nan; allowed: a finite number; write a finite number"),
    ],
)
def test_errors_are_in_our_own_words(epsilon, message):
    with pytest.raises(SpecError) as caught:
        build("policy", {"name": "test-thing", "arms": 2, "epsilon": epsilon}, "policy")
    assert str(caught.value) == f"policy.epsilon: {message}"


def test_a_missing_name_is_called_missing_and_long_lists_are_not_recited():
    with pytest.raises(SpecError, match="the policy has no name"):
        registry.get("policy", "", "policy.name")
    with pytest.raises(SpecError, match=r"one of \d+ names, see fairveil list audit-pair; did you mean"):
        registry.get("audit-pair", "policy:adap-ucx")


def test_threads_setting_is_checked(monkeypatch):
    from fairveil.task import threads

    monkeypatch.setenv("FAIRVEIL_THREADS", "3")
    assert threads() == 3
    for wrong in ("", "0", "-1", "two"):
        monkeypatch.setenv("FAIRVEIL_THREADS", wrong)
        with pytest.raises(SpecError, match="FAIRVEIL_THREADS"):
            threads()


def test_a_class_that_leaves_methods_out_is_refused_when_it_is_registered():
    with pytest.raises(ContractError, match=r"policy:half.*define decide, learn"):

        @register("policy", "half")
        class Half(Policy):
            def start(self):
                return {}


def test_the_table_of_contents_is_what_is_registered():
    registry.load()
    ours = [entry for entry in registry.entries() if entry.target.__module__.startswith("fairveil.")]
    for kind, homes in contents.HOMES.items():
        registered = {e.name: e.target.__module__.removeprefix("fairveil.") for e in ours if e.kind == kind}
        assert registered == homes, kind
    assert {e.target.__module__.removeprefix("fairveil.") for e in ours if e.kind == "audit-pair"} <= set(
        contents.AUDITS
    )
    assert {e.kind for e in ours} <= {*contents.HOMES, "audit-pair", "mutant", "artefact"}


def loaded_by(code, names):
    """Which of these modules a new process has loaded after running the code."""
    told = f"import sys; {code}; print(sorted({names!r} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.strip()


def test_a_name_loads_its_own_module_and_no_plotting_or_noise_library():
    heavy = {"opendp", "scipy.stats", "scipy.signal", "sklearn", "pandas", "altair", "dp_accounting"}
    rooms = {"fairveil.bandits.meritocratic", "fairveil.dynamics", "fairveil.lab"}
    assert loaded_by("from fairveil import registry; registry.find('private-nash')", heavy | rooms) == "[]"


def test_the_command_line_starts_without_audits_and_numerical_libraries():
    heavy = {"opendp", "numba", "scipy.special", "scipy.stats", "scipy.optimize", "sklearn", "pandas"}
    rooms = {"fairveil.proof", "fairveil.lab", "fairveil.service", "fairveil.running", "fairveil.task"}
    assert loaded_by("import fairveil.cli", heavy | rooms) == "[]"


def test_a_report_and_a_release_load_no_statistics_that_they_do_not_use():
    heavy = {"scipy.stats", "scipy.optimize", "sklearn", "pandas", "altair"}
    assert loaded_by("import fairveil.lab.handover.write, fairveil.lab.handover.ledgers", heavy) == "[]"
    assert loaded_by("import fairveil.streams", heavy) == "[]"


def test_a_built_in_name_is_taken_before_it_is_loaded():
    with pytest.raises(SpecError, match="already taken"):
        register("policy", "ucb")(Thing)


def test_isolated_names_do_not_outlive_their_block():
    with registry.isolated():
        register("metric", "only-here")(Thing)
        assert "only-here" in registry.names("metric")
    assert "only-here" not in registry.names("metric")


def test_a_variant_is_a_class_of_its_own_that_the_key_variant_selects():
    with registry.isolated():

        @registry.register("policy", "two-ways")
        @configuration
        class Sound:
            """As it should be."""

            variant: Literal["sound"] = "sound"

        @registry.register("policy", "two-ways", variant="printed")
        @configuration
        class Printed:
            """As it is printed."""

            variant: Literal["printed"] = "printed"
            extra: float = 1.0

        assert isinstance(registry.build("policy", {"name": "two-ways"}, "policy"), Sound)
        printed = registry.build("policy", {"name": "two-ways", "variant": "printed", "extra": 2.0}, "policy")
        assert isinstance(printed, Printed)
        assert describe(printed) == {"name": "two-ways", "variant": "printed", "extra": 2.0}
        assert isinstance(registry.build("policy", describe(printed), "policy"), Printed)
        assert "two-ways/printed" in registry.names("policy")
        with pytest.raises(SpecError, match=r"policy\.variant.*sound, printed"):
            registry.build("policy", {"name": "two-ways", "variant": "figure"}, "policy")
        with pytest.raises(SpecError, match="extra"):
            registry.build("policy", {"name": "two-ways", "extra": 2.0}, "policy")
