"""What database command lines would drop or empty, by each statement's first words; strings and comments are text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["DATA", "losses", "sql_losses"]

_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.S)
_DROP: Final = re.compile(
    r"^(?:EXPLAIN\s+ANALYZE\s+)?(?:DROP\s+(?:TABLE|DATABASE|SCHEMA|VIEW|MATERIALIZED|INDEX|SEQUENCE|COLLECTION|KEYSPACE|USER|ROLE|OWNED|TABLESPACE|TYPE|FUNCTION|EXTENSION|COLUMN|STREAM)"
    r"|TRUNCATE\b|ALTER\s+TABLE\s+\S+\s+DROP\b)",
    re.I,
)
_DELETE: Final = re.compile(r"^(?:WITH\b.*\)\s*)?DELETE\s+FROM\b", re.I | re.S)
_UPDATE: Final = re.compile(r"^UPDATE\s+\S+\s+SET\b", re.I)
_WHERE: Final = re.compile(r"\b(?:WHERE|LIMIT)\b", re.I)
_ALWAYS: Final = re.compile(r"\bWHERE\s+(?:1\s*=\s*1|TRUE|1)\s*$", re.I)
_CODE: Final = ("-c", "-e", "-q", "--command", "--execute", "--query", "-Q", "--sql")


def sql_losses(text: str) -> Iterator[Finding]:
    """The statements of an SQL text that drop or empty whole objects."""
    plain = _QUOTED.sub(lambda m: "x" if m.group()[0] in "\"'`$" else " ", text[:65536])
    for statement in plain.split(";"):
        statement = statement.strip()
        if _DROP.match(statement):
            yield Finding("db.drop", " ".join(statement.split()[:3]), "unknown")
        elif (_DELETE.match(statement) or _UPDATE.match(statement)) and _takes_all(statement):
            yield Finding("db.delete_all", " ".join(statement.split()[:3]), "unknown")


def _takes_all(statement: str) -> bool:
    return not _WHERE.search(statement) or bool(_ALWAYS.search(statement))


def losses(walk: Walk, text: str) -> Iterator[Finding]:
    """The same for a walk, which pays for each comment and quote that could reach to the end. Raises: Exhausted."""
    walk.env.spend(len(text) + (text.count("/*") + text.count("$")) * len(text) // 64)
    yield from sql_losses(text)


def _client(walk: Walk, call: Call) -> Iterator[Finding]:
    """psql, mysql, sqlite3 ...: statements in options, operands and on standard input."""
    opts = split(
        call.args,
        "ceqQhUdpPufDvsSO",
        (
            "--command",
            "--execute",
            "--query",
            "--host",
            "--user",
            "--file",
            "--username",
            "--dbname",
            "--database",
            "--sql",
        ),
    )
    texts = [opts.values[o].text for o in _CODE if o in opts.values]
    if call.program in ("sqlite3", "duckdb", "bq", "snowsql", "sqlcmd", "usql"):
        texts += [a.text for a in opts.operands[1:]]
    if call.stdin is not None:
        texts.append(call.stdin.text)
    for text in texts:
        yield from losses(walk, text)
    script = opts.values.get("-f") or opts.values.get("--file")
    if script is None and call.stdin is not None and call.stdin.taint == "file":
        script = Arg(walk.input)
    if script is not None:
        yield from _script(walk, script)


def _script(walk: Walk, script: Arg) -> Iterator[Finding]:
    """A file of statements: what it is known to hold, else what its name says."""
    content = walk.files.get(join(walk.env.cwd, script.text))
    if content is not None and content.known:
        yield from losses(walk, content.text)
    elif re.search(r"(?:^|[/_.-])(?:drop|truncate|wipe|destroy|purge|reset)(?:[/_.-]|$)", script.text, re.I):
        yield Finding("db.drop", script.text, "unknown")


_SQL_WRITES: Final = re.compile(
    r"(?:^|\n)[ \t]*(?:\\(?:o|out|w|write)|\.(?:output|once|backup|save|log|clone))[ \t]+(?:main[ \t]+)?"
    r"['\"]?([^ \t\n'\"|]+)"
    r"|(?:ATTACH(?:[ \t\n]+DATABASE)?|VACUUM[ \t\n]+(?:main[ \t\n]+)?INTO|OUTFILE)[ \t\n]+['\"]([^'\"]+)['\"]"
    r"|COPY[ \t][^;\n]{0,200}?[ \t]TO[ \t\n]+['\"]([^'\"]+)['\"]",
    re.I,
)
_MAX_WRITES: Final = 32


def _sql_files(walk: Walk, call: Call) -> Iterator[Finding]:
    """Files that statements and commands of a database shell write: `.output F`, `\\o F`, `VACUUM INTO 'F'`."""
    texts = [a.text for a in call.args] + ([call.stdin.text] if call.stdin is not None else [])
    for text in texts:
        walk.env.spend(len(text))
        for m in itertools.islice(_SQL_WRITES.finditer(text), _MAX_WRITES):
            walk.written(Arg(m.group(1) or m.group(2) or m.group(3)), call.program)
    yield from ()


_DOCUMENT: Final = re.compile(
    r"\.dropDatabase\s*\(|\.drop\s*\(|\.(?:deleteMany|remove)\s*\(\s*(?:\{\s*\})?\s*\)|\bdropAllUsers|\.dropIndexes\s*\("
)


def _shell(walk: Walk, call: Call) -> Iterator[Finding]:
    yield from _client(walk, call)
    yield from _sql_files(walk, call)


def _mongo(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "uphf", ("--eval", "--host", "--port", "--username", "--password", "--file"))
    texts = [opts.values["--eval"].text] if "--eval" in opts.values else []
    texts += [call.stdin.text] if call.stdin is not None else []
    if any(_DOCUMENT.search(t) for t in texts):
        yield Finding("db.drop", "collection or database", "unknown")


def _redis(walk: Walk, call: Call) -> Iterator[Finding]:
    words = [a.text.upper() for a in call.args] + (call.stdin.text.upper().split() if call.stdin is not None else [])
    if {"FLUSHALL", "FLUSHDB"} & set(words):
        yield Finding("db.drop", "all keys", "unknown")
    elif {"DEL", "UNLINK"} & set(words) and any(a.taint == "found" for a in call.args):
        yield Finding("db.delete_all", "keys", "unknown")


# task runners and frameworks: program -> words that empty a database
_TASKS: Final = {
    name: re.compile(pattern)
    for name, pattern in {
        "alembic": r"(?:^| )downgrade base\b",
        "artisan": r"(?:^| )(?:migrate:(?:fresh|reset|refresh)|db:wipe)\b",
        "bin/console": r"doctrine:(?:database|schema):drop",
        "dbt": r"^run-operation drop",
        "drizzle-kit": r"^drop\b",
        "flyway": r"(?:^| )clean\b",
        "knex": r"migrate:rollback .*--all",
        "liquibase": r"(?:^| )(?:drop-?all|dropAll)\b",
        "manage.py": r"(?:^| )(?:flush|reset_db|sqlflush|migrate \w+ zero)\b",
        "mix": r"^ecto\.(?:drop|reset)\b",
        "prisma": r"^(?:migrate reset|db push .*--force-reset|db push --force-reset)\b",
        "rails": r"(?:^| )db:(?:drop|reset|purge|truncate_all|migrate:reset|schema:load)\b",
        "rake": r"(?:^| )db:(?:drop|reset|purge|truncate_all|migrate:reset|schema:load)\b",
        "sequelize": r"^db:drop|^db:migrate:undo:all",
        "sequelize-cli": r"^db:drop|^db:migrate:undo:all",
        "typeorm": r"^schema:drop\b",
    }.items()
}


def _task(walk: Walk, call: Call) -> Iterator[Finding]:
    """`rails db:drop`, also as a script of an interpreter (`python manage.py flush`)."""
    name, args = call.program, call.args
    if name not in _TASKS:
        operands = [k for k, a in enumerate(args) if a.text[:1] != "-"]
        if not operands:
            return
        name = args[operands[0]].text.rpartition("/")[2]
        args = args[operands[0] + 1 :]
    pattern = _TASKS.get(name)
    words = " ".join(a.text for a in args[:32])
    if pattern is not None and pattern.search(words) and "--help" not in words and "--dry-run" not in words:
        yield Finding("db.drop", words[:60], "unknown")


DATA: Final[dict[str, Program]] = {
    **dict.fromkeys(
        (
            "psql",
            "mysql",
            "mariadb",
            "sqlite3",
            "duckdb",
            "clickhouse-client",
            "clickhouse",
            "cqlsh",
            "snowsql",
            "sqlcmd",
            "cockroach",
            "usql",
            "pgcli",
            "mycli",
        ),
        _shell,
    ),
    **dict.fromkeys(("mongosh", "mongo"), _mongo),
    **dict.fromkeys(_TASKS, _task),
    **dict.fromkeys(("python", "python3", "php", "ruby", "node"), _task),
    "redis-cli": _redis,
    "valkey-cli": _redis,
}
