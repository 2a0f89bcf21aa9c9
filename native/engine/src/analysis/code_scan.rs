//! What an inline program (`python -c`, `perl -e`, `node -e` ...) would run, delete, write or read: by its calls.
//!
//! A small tokenizer tells strings and comments from code; a call of a known function with literal arguments is a
//! finding. Names bound to a literal string in the same text are followed. Everything else stays text.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::code_calls::Seen;
use super::code_tokens::{tokens, Kind, Token};
use super::code_wide::{emptied, listed_and_deleted};
use super::patterns::{starts, Pattern};
use super::values::{is_space, length, truncated};

/// What one thing is that the code would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Runs a text as a shell would.
    Code,
    /// Runs a text as code of the language itself.
    Inline,
    /// Runs a program with arguments.
    Argv,
    /// Deletes one file.
    Delete,
    /// Deletes a directory with all below it.
    DeleteTree,
    /// Asks another machine to delete what a URL names.
    DeleteUrl,
    /// Gives statements to a database.
    Sql,
    /// Empties a database or a store.
    Emptied,
    /// Writes a file.
    Write,
    /// Reads a file.
    Read,
    /// Runs what it downloads.
    Fetched,
    /// Runs what it decodes.
    Hidden,
    /// Starts itself without end.
    Fork,
}

/// One thing that the code would do, and the texts it does it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What it is.
    pub deed: Deed,
    /// The code, the arguments, or the path.
    pub texts: Vec<String>,
}

const TOKEN_COST: usize = 3; // of a character of code
const LONG_QUOTES: &[&str] = &["\\`", "\\'''", "\\\"\"\""]; // of strings that may hold lines
const MAX: usize = 64 * 1024;

static LOOP: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r"\b(?:while\s*\(?\s*(?:1|True|true)|loop\s*(?:do|\{)|for\s*\(\s*;\s*;|fork\s+while\s+fork|for\s+\w+\s+in\s+range)",
    )
});
static ALIAS: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"\bimport\s+(\w+)\s+as\s+(\w+)"));

/// What it costs to read the code: its tokens, and each escaped quote from which a string could reach to the end.
#[must_use]
pub fn scan_cost(code: &str) -> usize {
    let count = |text: &str, sign: &str| text.matches(sign).count();
    let total = length(code);
    let mut cost = TOKEN_COST * total;
    if code.contains('\\') {
        let long: usize = LONG_QUOTES.iter().map(|quote| count(code, quote)).sum();
        cost += long * total / 64;
        for line in code.split('\n') {
            cost += (count(line, "\\'") + count(line, "\\\"")) * length(line) / 64;
        }
    }
    cost
}

/// The acts of the code, in order.
#[must_use]
pub fn scan(code: &str) -> Vec<Act> {
    let code = truncated(code, MAX);
    let tokens = tokens(code);
    let mut acts = Vec::new();
    let forks = |t: &Token<'_>| t.kind == Kind::Name && t.text.rsplit('.').next() == Some("fork");
    if LOOP.is_match(code) && tokens.iter().any(forks) {
        acts.push(Act {
            deed: Deed::Fork,
            texts: Vec::new(),
        });
    }
    unseen(&tokens, &mut acts);
    wide(&tokens, &mut acts);
    let seen = Seen {
        tokens: &tokens,
        names: literals(&tokens),
        aliases: ALIAS
            .all(code)
            .iter()
            .map(|m| (m.text(2), m.text(1)))
            .collect(),
    };
    for (k, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Name => acts.extend(seen.call(k, token.text)),
            Kind::Tick => acts.push(code_act(inner(token.text))),
            Kind::Quoted if starts(token.text, &["qx", "%x"]) => {
                acts.push(code_act(unquoted(token.text)));
            }
            _ => {}
        }
    }
    acts
}

/// What the code does to all of something.
fn wide(tokens: &[Token<'_>], acts: &mut Vec<Act>) {
    if let Some(call) = emptied(tokens) {
        acts.push(Act {
            deed: Deed::Emptied,
            texts: vec![call],
        });
    }
    for path in listed_and_deleted(tokens) {
        acts.push(Act {
            deed: Deed::Delete,
            texts: vec![path],
        });
    }
}

fn code_act(text: &str) -> Act {
    Act {
        deed: Deed::Code,
        texts: vec![text.to_owned()],
    }
}

/// The text without its first and last character, which are one byte each.
fn inner(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1)).unwrap_or("")
}

/// What stands between the marks of `q{...}`, `qq(...)`, `qx[...]` or `%x/.../`.
pub fn unquoted(text: &str) -> &str {
    let rest = ["qx", "%x", "qq", "q"]
        .iter()
        .find_map(|mark| text.strip_prefix(mark))
        .unwrap_or(text);
    inner(rest.trim_start_matches(is_space))
}

/// The last part of a name like `os.path::join->x`.
#[must_use]
pub fn last_part(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut start, mut at) = (0, 0);
    while let Some(first) = bytes.get(at) {
        let width = match (first, bytes.get(at + 1)) {
            (b'.', _) => 1,
            (b':', Some(b':')) | (b'-', Some(b'>')) => 2,
            _ => 0,
        };
        at += width.max(1);
        if width > 0 {
            start = at;
        }
    }
    text.get(start..).unwrap_or("")
}

/// Whether the code runs (exec, eval) what it downloads or decodes.
fn unseen(tokens: &[Token<'_>], acts: &mut Vec<Act>) {
    let called: HashSet<&str> = tokens
        .iter()
        .zip(tokens.iter().skip(1))
        .filter(|(a, b)| a.kind == Kind::Name && b.text == "(")
        .map(|(a, _)| last_part(a.text))
        .collect();
    let calls = |names: &[&str]| names.iter().any(|name| called.contains(name));
    let loads = |t: &Token<'_>| {
        t.kind == Kind::Name
            && starts(
                t.text,
                &["requests.get", "httpx.get", "fetch", "Net::HTTP", "LWP"],
            )
    };
    if !calls(&["exec", "eval", "instance_eval", "Function"]) {
        return;
    }
    if calls(&["urlopen", "urlretrieve", "file_get_contents"]) || tokens.iter().any(loads) {
        acts.push(Act {
            deed: Deed::Fetched,
            texts: Vec::new(),
        });
    }
    if calls(&[
        "b64decode",
        "a85decode",
        "unhexlify",
        "fromhex",
        "decompress",
        "atob",
        "base64_decode",
        "decode64",
    ]) {
        acts.push(Act {
            deed: Deed::Hidden,
            texts: Vec::new(),
        });
    }
}

/// Names that are set to one literal string.
fn literals<'t>(tokens: &[Token<'t>]) -> HashMap<&'t str, String> {
    let mut found = HashMap::new();
    for ((a, b), c) in tokens
        .iter()
        .zip(tokens.iter().skip(1))
        .zip(tokens.iter().skip(2))
    {
        if a.kind == Kind::Name && b.text == "=" && c.kind == Kind::Str {
            found.insert(a.text, value(c.text));
        }
    }
    found
}

/// The text that a string literal stands for.
pub fn value(literal: &str) -> String {
    let body = literal.trim_start_matches(['r', 'b', 'f', 'u', 'R', 'B', 'F', 'U']);
    let width = if starts(body, &["'''", "\"\"\""]) {
        3
    } else {
        1
    };
    let text = body
        .get(width..body.len().saturating_sub(width))
        .unwrap_or("");
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            (c, false) => out.push(c),
        }
    }
    out
}
