"""Open Bandit Dataset, the small sample: logged recommendations with propensities and clicks."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fairveil.configuration import configuration
from fairveil.data.files import DataFile, Download, Origin, columns, read_csv
from fairveil.data.schema import Column, Dataset, Source
from fairveil.fields import described
from fairveil.registry import register

HOME = "https://research.zozo.com/data.html"
_RAW = "https://raw.githubusercontent.com/st-tech/zr-obp/master/obd/"
_DIGESTS = {
    ("bts", "all"): "0ad874e4dbf6902f0845dd478ad8dde5ef6903583d3ffaace78411bdad064106",
    ("bts", "men"): "db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
    ("bts", "women"): "e5d1b49a39b608585a2f3014a3f54970430cd37a495c1b73fceb85cdf428a5b8",
    ("random", "all"): "7168295b6e0a9eabcf3392320a5dd434e542b68e705d5cd9491499af589812f1",
    ("random", "men"): "ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
    ("random", "women"): "e65f3bd3beb17664fa69cc129bf7bf852a775f8ffa630506e505fc905315bb34",
}
FILES = {
    (policy, campaign): DataFile(
        f"open_bandit/{policy}/{campaign}/{campaign}.csv",
        digest,
        HOME,
        Origin((Download(f"{_RAW}{policy}/{campaign}/{campaign}.csv", digest),)),
    )
    for (policy, campaign), digest in _DIGESTS.items()
}
ITEMS = {"all": 80, "men": 34, "women": 46}


@register("dataset", "open-bandit")
@configuration
class OpenBandit(Source):
    """Open Bandit sample: 10,000 logged recommendations (item, position, click, propensity) per policy and campaign.

    >>> OpenBandit(campaign="men").policy
    'random'
    """

    policy: Literal["random", "bts"] = described(
        "the rule that made the log: uniform, or Thompson sampling", default="random"
    )
    campaign: Literal["all", "men", "women"] = described("which campaign", default="all")

    title = "Open Bandit Dataset, small sample"
    home = HOME
    licence = "Apache-2.0 (sample); see the home page for the full data set"
    citation = "Saito, Aihara, Matsutani and Narita (2021), Open Bandit Dataset and Pipeline"
    files = tuple(FILES.values())

    def load(self) -> Dataset:
        names = ["item_id", "position", "click", "propensity_score"]
        rows = columns(read_csv(FILES[self.policy, self.campaign].read())[names])
        rows["click"] = rows["click"].astype(np.int64)
        schema = (
            Column("item_id", "category", categories=tuple(range(ITEMS[self.campaign]))),
            Column("position", "category", categories=(1, 2, 3)),
            Column("click", "category", categories=(0, 1)),
            Column("propensity_score", "continuous"),
        )
        return Dataset("open-bandit", rows, schema, "click", (), self.facts())
