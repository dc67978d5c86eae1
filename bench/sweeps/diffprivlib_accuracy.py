"""Accuracy of diffprivlib's LogisticRegression on rows written by fairveil, in an environment of its own.

python bench/sweeps/diffprivlib_accuracy.py write rows.npz        # in fairveil's environment: Adult, 8 public bins
python bench/sweeps/diffprivlib_accuracy.py fit rows.npz          # in an environment with diffprivlib
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

SEED, RUNS = 300, 10


def write(file: str) -> None:
    from fairveil import data
    from fairveil.randomness import generator

    people = data.load("adult")
    encoded = people.encode(bins=8)
    tests = []
    for run in range(RUNS):  # the splits of task classify
        order = generator(SEED, "classify", run).permutation(len(people))
        tests.append(order[: round(0.25 * len(people))])
    np.savez_compressed(
        file,
        rows=encoded.matrix.astype(np.int8),
        labels=people["income"],
        tests=np.array(tests),
        bound=encoded.norm_bound,
    )


def fit(file: str) -> None:
    import diffprivlib
    from diffprivlib.models import LogisticRegression

    loaded = np.load(file)
    rows, labels = loaded["rows"].astype(np.float64), loaded["labels"]
    print("diffprivlib", diffprivlib.__version__)
    warnings.simplefilter("ignore")
    for epsilon in (0.5, 1.0, 3.0):
        for strength in (1.0, 0.01):
            found = []
            for run, test in enumerate(loaded["tests"]):
                train = np.ones(len(rows), bool)
                train[test] = False
                model = LogisticRegression(
                    epsilon=epsilon, data_norm=float(loaded["bound"]), C=strength, random_state=run
                )
                found.append(model.fit(rows[train], labels[train]).score(rows[test], labels[test]))
            print(
                f"eps {epsilon:g}, C {strength:g}: accuracy {np.mean(found):.4f} +- {np.std(found, ddof=1):.4f}",
                flush=True,
            )


if __name__ == "__main__":
    {"write": write, "fit": fit}[sys.argv[1]](sys.argv[2])
