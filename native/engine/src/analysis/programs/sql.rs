//! The statements of an SQL text that drop or empty whole objects.

use std::sync::LazyLock;

use crate::analysis::effects::Finding;
use crate::analysis::patterns::{stripped, words, Pattern};
use crate::analysis::values::truncated;

static DROP: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"^(?:EXPLAIN\s+ANALYZE\s+)?(?:DROP\s+(?:TABLE|DATABASE|SCHEMA|VIEW|MATERIALIZED|INDEX|SEQUENCE|COLLECTION",
        r"|KEYSPACE|USER|ROLE|OWNED|TABLESPACE|TYPE|FUNCTION|EXTENSION|COLUMN|STREAM)",
        r"|TRUNCATE\b|ALTER\s+TABLE\s+\S+\s+DROP\b)",
    ))
});
static DELETE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case(r"^(?:WITH\b(?s:.*)\)\s*)?DELETE\s+FROM\b"));
static UPDATE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case(r"^UPDATE\s+\S+\s+SET\b"));
static WHERE: LazyLock<Pattern> = LazyLock::new(|| Pattern::ignoring_case(r"\b(?:WHERE|LIMIT)\b"));
static ALWAYS: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case(r"\bWHERE\s+(?:1\s*=\s*1|TRUE|1)\s*$"));
static TAG: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^\$\w*\$"));
const MAX: usize = 65536;

/// What the statements of a text drop or empty.
#[must_use]
pub fn sql_losses(text: &str) -> Vec<Finding> {
    let plain = without_quoted(truncated(text, MAX));
    let mut found = Vec::new();
    for statement in plain.split(';').map(stripped) {
        let name = if DROP.is_match(statement) {
            "db.drop"
        } else if (DELETE.is_match(statement) || UPDATE.is_match(statement)) && takes_all(statement)
        {
            "db.delete_all"
        } else {
            continue;
        };
        let target: Vec<&str> = words(statement).take(3).collect();
        found.push(Finding::new(name, target.join(" "), "unknown"));
    }
    found
}

fn takes_all(statement: &str) -> bool {
    !WHERE.is_match(statement) || ALWAYS.is_match(statement)
}

/// The text with an `x` for each string and a blank for each comment.
fn without_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' => doubled(rest, first),
            '`' => rest
                .get(1..)
                .and_then(|after| after.find('`'))
                .map(|at| at + 2),
            '-' if rest.starts_with("--") => Some(rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => rest
                .get(2..)
                .and_then(|after| after.find("*/"))
                .map(|at| at + 4),
            '$' => dollars(rest),
            _ => None,
        };
        if let Some(end) = end {
            out.push(if matches!(first, '-' | '/') { ' ' } else { 'x' });
            rest = rest.get(end..).unwrap_or("");
        } else {
            out.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or("");
        }
    }
    out
}

/// The end of a string whose quotes inside are doubled; without an end, the last such pair ends it.
fn doubled(text: &str, quote: char) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_quote = |at: usize| bytes.get(at).copied().map(char::from) == Some(quote);
    let (mut at, mut pair) = (1, None);
    while at < bytes.len() {
        if is_quote(at) && is_quote(at + 1) {
            pair = Some(at + 1);
            at += 2;
        } else if is_quote(at) {
            return Some(at + 1);
        } else {
            at += 1;
        }
    }
    pair
}

/// The end of `$tag$ ... $tag$`.
fn dollars(text: &str) -> Option<usize> {
    let tag = TAG.find(text)?;
    let after = text.get(tag.len()..)?;
    after.find(tag).map(|at| at + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::{sql_losses, without_quoted};

    fn names(text: &str) -> Vec<&'static str> {
        sql_losses(text)
            .iter()
            .map(|finding| finding.name)
            .collect()
    }

    #[test]
    fn strings_and_comments_are_no_statements() {
        assert_eq!(
            without_quoted("a 'b''c' -- d\ne /* f */ \"g\" `h` $t$ i $t$ j"),
            "a x  \ne   x x x j"
        );
        assert_eq!(without_quoted("'a''b"), "x'b");
        assert_eq!(without_quoted("$a$ b $c$ /* x"), "$a$ b $c$ /* x");
    }

    #[test]
    fn whole_objects_are_lost_by_drop_truncate_and_delete_without_a_condition() {
        assert_eq!(
            names("select 1; drop table x; delete from y"),
            ["db.drop", "db.delete_all"]
        );
        assert_eq!(names("delete from y where 1 = 1"), ["db.delete_all"]);
        assert!(names("delete from y where id = 4; select 'drop table x'").is_empty());
        assert_eq!(
            names("with t as (select 1) delete from y"),
            ["db.delete_all"]
        );
    }
}
