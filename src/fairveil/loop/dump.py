"""A store on PostgreSQL as one file: `pg_dump` in one snapshot, and back into a schema that has no store."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fairveil.errors import DependencyError, SpecError
from fairveil.loop.problems import StorageFailed

DUMP = "store.dump"


def dump(url: str, folder: Path) -> str:
    """Write all tables of the store's schema as they are at one moment; gives the name of the schema."""
    schema = _schema(url)
    os.close(os.open(folder / DUMP, os.O_CREAT | os.O_WRONLY, 0o600))  # before the first row is in it
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--schema={schema}",
         f"--file={folder / DUMP}")  # fmt: skip
    return schema


def load(url: str, folder: Path, schema: str) -> None:
    """Put a dump back, all of it or nothing."""
    import psycopg

    here = _schema(url)
    if here != schema:
        raise SpecError(
            "the copy is of another schema", path="--store", given=here, allowed=schema, fix="set its search_path"
        )
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('meta')").fetchone() != (None,):
            raise SpecError("there is a store already", path="store", given=schema, fix="drop the schema first")
    listed = subprocess.run([_program("pg_restore"), "--list", str(folder / DUMP)], capture_output=True, text=True)
    wanted = [line for line in listed.stdout.splitlines() if " SCHEMA - " not in line]
    contents = folder / "store.list"
    try:
        contents.write_text("\n".join(wanted) + "\n")
        _run("pg_restore", url, "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction",
             f"--use-list={contents}", str(folder / DUMP))  # fmt: skip
    finally:
        contents.unlink(missing_ok=True)


def _schema(url: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT current_schema()").fetchone()
    if found is None or found[0] is None:
        raise SpecError("there is no schema to work in", path="--store", fix="CREATE SCHEMA, as its search_path says")
    return str(found[0])


def _run(program: str, url: str, *options: str) -> None:
    """A program of the server's with its address; a password goes by the environment, which others cannot read."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = conninfo_to_dict(url)
    password = given.pop("password", None)
    secret = {} if password is None else {"PGPASSWORD": str(password)}
    address = f"--dbname={make_conninfo(**given)}"  # type: ignore[arg-type]
    done = subprocess.run(
        [_program(program), address, *options], capture_output=True, text=True, env={**os.environ, **secret}
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise StorageFailed(f"{program} failed", path="--store", given=words[-1] if words else f"{done.returncode}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise DependencyError(f"{name} is not installed", given=name, fix="install the client programs of PostgreSQL")
    return found
