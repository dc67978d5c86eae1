"""A small task as a plug-in: means of seeded uniform numbers, with switches that make a worker slow, die or fail."""

import os
import time
from pathlib import Path

from fairveil.errors import InputError
from fairveil.fields import Count
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Outcome, Task, TaskSpec, run_blocks


class CoinsSpec(TaskSpec):
    block: Count = 2
    sleep: float = 0.0
    die_once: str = ""
    fail: bool = False


@register("task", "coins")
class Coins(Task):
    """Mean of uniform numbers over runs."""

    Spec = CoinsSpec

    def blocks(self, spec):
        return run_blocks(spec["runs"], spec["block"])

    def work(self, spec, block):
        time.sleep(spec["sleep"])
        if spec["fail"]:
            raise InputError("a planted failure", path="coins")
        if spec["die_once"] and block["first"] == 0 and not Path(spec["die_once"]).exists():
            Path(spec["die_once"]).write_text("died")
            os._exit(9)
        draws = [generator(spec["seed"], "run", run).random() for run in range(block["first"], block["last"])]
        return {"draws": draws}

    def finish(self, spec, parts):
        draws = [float(draw) for part in parts for draw in part["draws"]]
        mean = sum(draws) / len(draws)
        series = {"draws": {"x": list(range(len(draws))), "y": draws}}
        return Outcome({"mean": mean, "mean_std": 0.1, "missing": float("nan")}, series)
