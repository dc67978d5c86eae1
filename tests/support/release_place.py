"""A folder in which tests run `fairveil release`."""

import csv
import io

from fairveil.cli import app

SECRET = "98765.4321"


def run(*words):
    """The command in this process; errors come out as they are."""
    app([str(word) for word in words], standalone_mode=False)


class Place:
    def __init__(self, folder):
        self.folder, self.out, self.ledger = folder, folder / "private.csv", folder / "stream.db"

    def rows(self, rows, header="n"):
        file = self.folder / "in.csv"
        file.write_text("\n".join([header, *map(str, rows)]) + "\n")
        return file

    def release(self, file, *more, budget=("--epsilon", 1, "--delta", 1e-6), horizon=40, ledger=True, column="n"):
        words = ["--in", file, "--column", column, *budget, "--out", self.out, *more]
        words += ["--horizon", horizon] if horizon else []
        run("release", *words, *(["--ledger", self.ledger] if ledger else []))

    def lines(self):
        return list(csv.DictReader(io.StringIO(self.out.read_text())))

    def untouched(self):
        return not self.out.exists() and not self.ledger.exists() and not list(self.folder.glob("*.guarantee.json"))
