//! What an inline program (`python -c`, `perl -e`, `node -e` ...) would run, delete, write or read: by its calls.
//!
//! A small tokenizer tells strings and comments from code; a call of a known function with literal arguments is a
//! finding. Names bound to a literal string in the same text are followed. Everything else stays text.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::code_tokens::{tokens, Kind, Token};
use super::code_wide::{emptied, listed_and_deleted};
use super::decode::base64;
use super::patterns::{starts, Pattern};
use super::values::{after_last, is_space, length, truncated, HOME, HOME_TEXT, UNKNOWN_TEXT};

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
#[rustfmt::skip]
const RUNS: &[&str] = &[
    "system", "popen", "exec", "execSync", "exec_command", "getoutput", "getstatusoutput", "call", "run",
    "check_call", "check_output", "Popen", "spawn", "spawnSync", "execFile", "execFileSync", "execv", "execvp",
    "execve", "execl", "execlp", "Command", "spawnl", "spawnvp", "shell_exec", "passthru", "proc_open", "execute", "capture2",
    "capture3", "popen2", "sh", "shell", "syscmd", "esyscmd", "create_subprocess_shell", "create_subprocess_exec", "doShellScript", "execaSync", "execa",
    "qx",
];
#[rustfmt::skip]
const EVALUATES: &[&str] = &[
    "exec", "eval", "Function", "instance_eval", "class_eval", "compile", "runInNewContext",
];
/// Functions that delete, and whether they take everything below.
#[rustfmt::skip]
const DELETES: &[(&str, bool)] = &[
    ("rmtree", true), ("rm_rf", true), ("rm_r", true), ("rmSync", true), ("remove_tree", true), ("rimraf", true),
    ("remove_dir_all", true), ("rm", true), ("rmdirSync", false), ("unlinkSync", false), ("unlink", false),
    ("removedirs", true), ("rmdir", false), ("remove", false), ("delete", false), ("emptyDirSync", true),
    ("removeSync", true), ("rimrafSync", true),
];
#[rustfmt::skip]
const WRITES: &[&str] = &[
    "writeFileSync", "writeFile", "appendFileSync", "appendFile", "write_text", "write_bytes", "file_put_contents",
    "write", "copyfile", "copy", "copy2", "move", "rename", "replace", "symlink", "renameSync", "copyFileSync",
    "createWriteStream", "chmod", "truncate",
];
#[rustfmt::skip]
const COPIES: &[&str] = &[
    "copy", "copy2", "copyfile", "move", "rename", "replace", "symlink", "renameSync", "copyFileSync",
];
#[rustfmt::skip]
const OPENS: &[&str] = &[
    "open", "Path", "readFileSync", "readFile", "read_text", "file_get_contents", "fopen", "slurp",
];
#[rustfmt::skip]
const QUERIES: &[&str] = &[
    "execute", "executescript", "executemany", "query", "raw", "exec_driver_sql", "executeRawUnsafe", "queryRawUnsafe",
];
const HOMES: &[&str] = &["Path.home", "homedir", "Dir.home", "env.HOME"];
const EXPANDS: &[&str] = &["expanduser", "expand_path", "glob"];
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
fn unquoted(text: &str) -> &str {
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
fn value(literal: &str) -> String {
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

/// A call of a known function.
struct Called<'c> {
    k: usize,
    function: &'c str,
    last: &'c str,
    /// Of one that deletes: whether it takes everything below.
    tree: Option<bool>,
}

/// Tokens with the names that are known in them.
struct Seen<'s, 't> {
    tokens: &'s [Token<'t>],
    names: HashMap<&'t str, String>,
    aliases: HashMap<&'t str, &'t str>,
}

impl Seen<'_, '_> {
    fn at(&self, k: usize) -> &str {
        self.tokens.get(k).map_or("", |t| t.text)
    }

    /// The acts of a call that starts at token `k`, if it is one of a known function with literal arguments.
    fn call(&self, k: usize, function: &str) -> Vec<Act> {
        let last = last_part(function).trim_end_matches(['!', '?']);
        let last = self.aliases.get(last).copied().unwrap_or(last);
        let last = if last == "sync" && self.of_rimraf(k) {
            "rimraf"
        } else {
            last
        };
        let tree = DELETES
            .iter()
            .find(|(name, _)| *name == last)
            .map(|(_, tree)| *tree);
        if tree.is_none()
            && ![EVALUATES, RUNS, WRITES, OPENS, QUERIES]
                .iter()
                .any(|names| names.contains(&last))
        {
            return Vec::new();
        }
        let (strings, flags) = self.arguments(k + 1);
        let mut strings = at_home(strings, &flags);
        let mut acts = Vec::new();
        if let Some(first) = strings.first().filter(|_| QUERIES.contains(&last)) {
            acts.push(Act {
                deed: Deed::Sql,
                texts: vec![first.clone()],
            });
        }
        if flags
            .iter()
            .any(|f| f.ends_with("b64decode") || *f == "atob")
        {
            strings = strings.iter().map(|s| decoded(s)).collect();
        }
        let Some(first) = strings.first().cloned() else {
            return acts;
        };
        if EVALUATES.contains(&last) {
            acts.push(Act {
                deed: Deed::Inline,
                texts: vec![first.clone()],
            });
        }
        if RUNS.contains(&last) {
            acts.push(self.run(k, last, strings));
        } else {
            let called = Called {
                k,
                function,
                last,
                tree,
            };
            acts.extend(self.on_path(&called, &strings, &flags));
        }
        acts
    }

    /// What a call does to a path.
    fn on_path(
        &self,
        called: &Called<'_>,
        strings: &[String],
        flags: &HashSet<&str>,
    ) -> Option<Act> {
        let (function, last) = (called.function, called.last);
        let first = strings.first()?.clone();
        let (deed, path) = if called.tree.is_some() && first.contains("://") {
            (Deed::DeleteUrl, first)
        } else if let Some(tree) = called.tree {
            let recursive =
                (tree && (last != "rm" || function.contains('.'))) || flags.contains("recursive");
            let sure = !["remove", "delete", "rm"].contains(&last)
                || first.contains('/')
                || recursive
                || starts(function, &["os.", "fs.", "File.", "Path"]);
            (
                sure.then_some(if recursive {
                    Deed::DeleteTree
                } else {
                    Deed::Delete
                })?,
                first,
            )
        } else if OPENS.contains(&last) {
            (self.opened(called.k, strings), first)
        } else if COPIES.contains(&last) {
            (
                Deed::Write,
                (function != last)
                    .then(|| strings.get(1).cloned())
                    .flatten()?,
            )
        } else if !WRITES.contains(&last) {
            return None;
        } else {
            let unsure = matches!(after_last(function, '.'), "write" | "replace");
            ((!unsure).then_some(Deed::Write)?, first)
        };
        Some(Act {
            deed,
            texts: vec![path],
        })
    }

    /// `require('rimraf').sync(`
    fn of_rimraf(&self, k: usize) -> bool {
        k > 2 && self.at(k - 1) == "." && self.at(k - 2) == ")" && value(self.at(k - 3)) == "rimraf"
    }

    fn run(&self, k: usize, last: &str, mut strings: Vec<String>) -> Act {
        let bracketed = (k + 1..k + 4).any(|k| self.at(k) == "[");
        let several = strings.len() > 1
            && (bracketed
                || starts(last, &["spawn", "execFile", "execl", "execv"])
                || matches!(last, "system" | "exec" | "Command"));
        if !several {
            strings.truncate(1);
        }
        Act {
            deed: if several { Deed::Argv } else { Deed::Code },
            texts: strings,
        }
    }

    /// What happens to a file that a call opens.
    fn opened(&self, k: usize, strings: &[String]) -> Deed {
        let after = if self.at(k + 3) == ")" {
            last_part(self.at(k + 4))
        } else {
            ""
        };
        let rest: String = self
            .tokens
            .iter()
            .skip(k + 1)
            .take(7)
            .filter(|t| matches!(t.kind, Kind::Name | Kind::Other))
            .map(|t| t.text)
            .collect();
        let mode = strings
            .get(1)
            .is_some_and(|mode| starts(mode, &["w", "a", "x", ">"]));
        if mode || rest.contains(".write_") {
            Deed::Write
        } else if rest.contains(".unlink") || after == "unlink" {
            Deed::Delete
        } else {
            Deed::Read
        }
    }

    /// `chr(47)` and its like: a literal in all but spelling.
    fn character(&self, k: usize, name: &str) -> Option<char> {
        if !matches!(last_part(name), "chr" | "fromCharCode") || self.at(k + 1) != "(" {
            return None;
        }
        let digits: String = (k + 2..k + 6)
            .map(|k| self.at(k))
            .take_while(|text| is_digits(text))
            .collect();
        let number = u8::try_from(digits.parse::<u32>().ok()?).ok()?;
        (digits.len() < 4 && (32..127).contains(&number)).then_some(char::from(number))
    }

    /// Literal strings of an argument list (with or without parentheses), and the names that stand in it.
    fn arguments(&self, k: usize) -> (Vec<String>, HashSet<&str>) {
        let (mut strings, mut flags, mut level) = (Vec::new(), HashSet::new(), 0_i32);
        for (j, token) in self.tokens.iter().enumerate().skip(k).take(40) {
            match token.kind {
                Kind::Other if ["(", "[", "{"].contains(&token.text) => level += 1,
                Kind::Other if [")", "]", "}"].contains(&token.text) => {
                    level -= 1;
                    if level <= 0 {
                        break;
                    }
                }
                Kind::Str => strings.push(value(token.text)),
                Kind::Quoted => strings.push(unquoted(token.text).to_owned()),
                Kind::Name => {
                    flags.insert(token.text);
                    if let Some(text) = self.names.get(token.text) {
                        strings.push(text.clone());
                    } else if HOMES.iter().any(|home| token.text.ends_with(home)) {
                        strings.push(HOME_TEXT.to_owned());
                    } else if let Some(character) = self.character(j, token.text) {
                        strings.push(character.to_string());
                    } else if level == 0 && !["glob", "qw"].contains(&token.text) {
                        break;
                    }
                }
                _ if level == 0 && token.text != "," => break,
                _ if matches!(token.text, "/" | "+") => {
                    flags.insert(token.text);
                }
                _ => {}
            }
        }
        (strings, flags)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `expanduser("~/x")` lies at home; what is put together with a home directory lies below it.
fn at_home(mut strings: Vec<String>, flags: &HashSet<&str>) -> Vec<String> {
    if flags.iter().any(|f| EXPANDS.contains(&last_part(f))) {
        for text in &mut strings {
            if text == "~" || text.starts_with("~/") {
                text.replace_range(..1, HOME_TEXT);
            }
        }
    }
    let joins = |f: &&str| matches!(*f, "/" | "+") || matches!(last_part(f), "join" | "joinpath");
    match strings.split_first() {
        Some((first, rest)) if first == HOME_TEXT && flags.iter().any(joins) => {
            let rest: Vec<&str> = rest.iter().map(|s| s.trim_start_matches('/')).collect();
            let rest = rest.join("/");
            let below = if rest.is_empty() { UNKNOWN_TEXT } else { &rest };
            vec![format!("{HOME}/{below}")]
        }
        _ => strings,
    }
}

/// The text that base64 hides, or the text itself.
fn decoded(text: &str) -> String {
    match base64(text) {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => text.to_owned(),
    }
}
