//! What database command lines would drop or empty, by each statement's first words; strings and comments are text.

use std::sync::LazyLock;

use super::sql::sql_losses;
use crate::analysis::effects::Finding;
use crate::analysis::options::split;
use crate::analysis::patterns::{words, Pattern};
use crate::analysis::values::{after_last, length, spaced, truncated, Arg};
use crate::analysis::walk::{Call, Program, Walk};

const CODE: &[&str] = &[
    "-c",
    "-e",
    "-q",
    "--command",
    "--execute",
    "--query",
    "-Q",
    "--sql",
];
#[rustfmt::skip]
const CLIENT_LONG: &[&str] = &[
    "--command", "--execute", "--query", "--host", "--user", "--file", "--username", "--dbname", "--database", "--sql",
];
static FILE_NAME: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(r"(?:^|[/_.-])(?:drop|truncate|wipe|destroy|purge|reset)(?:[/_.-]|\n?$)")
});
static SQL_WRITES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"(?:^|\n)[ \t]*(?:\\(?:o|out|w|write)|\.(?:output|once|backup|save|log|clone))[ \t]+(?:main[ \t]+)?",
        r#"['"]?([^ \t\n'"|]+)"#,
        r"|(?:ATTACH(?:[ \t\n]+DATABASE)?|VACUUM[ \t\n]+(?:main[ \t\n]+)?INTO|OUTFILE)[ \t\n]+",
        r#"['"]([^'"]+)['"]"#,
        r#"|COPY[ \t][^;\n]{0,200}?[ \t]TO[ \t\n]+['"]([^'"]+)['"]"#,
    ))
});
const MAX_WRITES: usize = 32;
static DOCUMENT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"\.dropDatabase\s*\(|\.drop\s*\(|\.(?:deleteMany|remove)\s*\(\s*(?:\{\s*\})?\s*\)|\bdropAllUsers",
        r"|\.dropIndexes\s*\(",
    ))
});
/// Task runners and frameworks: words that empty a database.
static TASKS: LazyLock<[(&str, Pattern); 16]> = LazyLock::new(|| {
    let rails =
        || Pattern::new(r"(?:^| )db:(?:drop|reset|purge|truncate_all|migrate:reset|schema:load)\b");
    let sequelize = || Pattern::new(r"^db:drop|^db:migrate:undo:all");
    [
        ("alembic", Pattern::new(r"(?:^| )downgrade base\b")),
        (
            "artisan",
            Pattern::new(r"(?:^| )(?:migrate:(?:fresh|reset|refresh)|db:wipe)\b"),
        ),
        (
            "bin/console",
            Pattern::new(r"doctrine:(?:database|schema):drop"),
        ),
        ("dbt", Pattern::new(r"^run-operation drop")),
        ("drizzle-kit", Pattern::new(r"^drop\b")),
        ("flyway", Pattern::new(r"(?:^| )clean\b")),
        ("knex", Pattern::new(r"migrate:rollback .*--all")),
        ("liquibase", Pattern::new(r"(?:^| )(?:drop-?all|dropAll)\b")),
        (
            "manage.py",
            Pattern::new(r"(?:^| )(?:flush|reset_db|sqlflush|migrate \w+ zero)\b"),
        ),
        ("mix", Pattern::new(r"^ecto\.(?:drop|reset)\b")),
        (
            "prisma",
            Pattern::new(r"^(?:migrate reset|db push .*--force-reset|db push --force-reset)\b"),
        ),
        ("rails", rails()),
        ("rake", rails()),
        ("sequelize", sequelize()),
        ("sequelize-cli", sequelize()),
        ("typeorm", Pattern::new(r"^schema:drop\b")),
    ]
});
const MAX_TARGET: usize = 60;

#[rustfmt::skip]
const CLIENTS: &[&str] = &[
    "psql", "mysql", "mariadb", "sqlite3", "duckdb", "clickhouse-client", "clickhouse", "cqlsh", "snowsql", "sqlcmd",
    "cockroach", "usql", "pgcli", "mycli",
];
const RUNTIMES: &[&str] = &["python", "python3", "php", "ruby", "node"];

/// The names of the programs and what is known of each.
pub fn programs() -> impl Iterator<Item = (&'static str, Program)> {
    let tasks = TASKS
        .iter()
        .map(|(name, _)| *name)
        .chain(RUNTIMES.iter().copied());
    let others: [(&str, Program); 4] = [
        ("mongosh", mongo),
        ("mongo", mongo),
        ("redis-cli", redis),
        ("valkey-cli", redis),
    ];
    CLIENTS
        .iter()
        .map(|name| (*name, shell as Program))
        .chain(others)
        .chain(tasks.map(|name| (name, task as Program)))
}

fn task_pattern(name: &str) -> Option<&'static Pattern> {
    TASKS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, pattern)| pattern)
}

fn drops(walk: &mut Walk, target: &str) {
    walk.give(Finding::new("db.drop", target, "unknown"));
}

/// The losses of a text; each comment and quote that could reach to the end is paid for.
fn statements(walk: &mut Walk, text: &str) {
    for finding in losses(walk, text) {
        walk.give(finding);
    }
}

/// What statements drop or empty; the walk pays for each comment and quote that could reach to the end.
#[must_use]
pub fn losses(walk: &mut Walk, text: &str) -> Vec<Finding> {
    let open = text.matches("/*").count() + text.matches('$').count();
    let total = length(text);
    if !walk.spend(total + open * total / 64) {
        return Vec::new();
    }
    sql_losses(text)
}

/// A database shell: what its statements lose, and the files that it writes.
fn shell(walk: &mut Walk, call: &Call) {
    client(walk, call);
    for text in call.args.iter().chain(call.stdin.as_ref()) {
        if !walk.spend(length(&text.text)) {
            return;
        }
        for found in SQL_WRITES.all(&text.text).into_iter().take(MAX_WRITES) {
            let path = (1..4).find_map(|group| found.group(group));
            walk.written(&Arg::new(path.unwrap_or("")), &call.program, false);
        }
    }
}

/// psql, mysql, sqlite3 ...: statements in options, operands and on standard input.
fn client(walk: &mut Walk, call: &Call) {
    let opts = split(&call.args, "ceqQhUdpPufDvsSO", CLIENT_LONG, false);
    for text in CODE.iter().filter_map(|option| opts.value(option)) {
        statements(walk, &text.text);
    }
    if matches!(
        call.program.as_str(),
        "sqlite3" | "duckdb" | "bq" | "snowsql" | "sqlcmd" | "usql"
    ) {
        for arg in opts.operands.iter().skip(1) {
            statements(walk, &arg.text);
        }
    }
    if let Some(stdin) = &call.stdin {
        statements(walk, &stdin.text);
    }
    let file = call
        .stdin
        .as_ref()
        .is_some_and(|stdin| stdin.taint == "file");
    if let Some(path) = opts.value("-f").or_else(|| opts.value("--file")) {
        script(walk, &path.text);
    } else if file {
        let path = walk.input.clone();
        script(walk, &path);
    }
}

/// A file of statements: what it is known to hold, else what its name says.
fn script(walk: &mut Walk, path: &str) {
    let content = walk.file(path).filter(|content| content.known());
    if let Some(text) = content.map(|content| content.text.clone()) {
        statements(walk, &text);
    } else if FILE_NAME.is_match(path) {
        drops(walk, path);
    }
}

fn mongo(walk: &mut Walk, call: &Call) {
    let long = [
        "--eval",
        "--host",
        "--port",
        "--username",
        "--password",
        "--file",
    ];
    let opts = split(&call.args, "uphf", &long, false);
    let mut texts = opts.value("--eval").into_iter().chain(&call.stdin);
    if texts.any(|arg| DOCUMENT.is_match(&arg.text)) {
        drops(walk, "collection or database");
    }
}

fn redis(walk: &mut Walk, call: &Call) {
    let empties = |word: &str| matches!(word.to_uppercase().as_str(), "FLUSHALL" | "FLUSHDB");
    let said = call.stdin.as_ref().map_or("", |stdin| stdin.text.as_str());
    let deletes = |word: &str| matches!(word.to_uppercase().as_str(), "DEL" | "UNLINK");
    if call.args.iter().any(|a| empties(&a.text)) || words(said).any(empties) {
        drops(walk, "all keys");
    } else if (call.args.iter().any(|a| deletes(&a.text)) || words(said).any(deletes))
        && call.args.iter().any(|a| a.taint == "found")
    {
        walk.give(Finding::new("db.delete_all", "keys", "unknown"));
    }
}

/// `rails db:drop`, also as a script of an interpreter (`python manage.py flush`).
fn task(walk: &mut Walk, call: &Call) {
    let (pattern, args) = match task_pattern(&call.program) {
        Some(pattern) => (Some(pattern), call.args.as_slice()),
        None => match call.args.iter().position(|a| !a.text.starts_with('-')) {
            None => return,
            Some(at) => {
                let name = call.args.get(at).map_or("", |a| after_last(&a.text, '/'));
                (task_pattern(name), call.args.get(at + 1..).unwrap_or(&[]))
            }
        },
    };
    let words = spaced(args.iter().take(32));
    let only_tells = words.contains("--help") || words.contains("--dry-run");
    if pattern.is_some_and(|pattern| pattern.is_match(&words)) && !only_tells {
        drops(walk, truncated(&words, MAX_TARGET));
    }
}

#[cfg(test)]
mod tests {
    use super::TASKS;

    #[test]
    fn every_pattern_compiles() {
        assert!(TASKS.iter().all(|(_, pattern)| pattern.compiles()));
    }
}
