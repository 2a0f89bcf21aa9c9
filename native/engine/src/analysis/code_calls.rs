//! What one call in an inline program would do: by the name of its function, and its literal arguments.

use std::collections::{HashMap, HashSet};

use super::code_scan::{last_part, unquoted, value, Act, Deed};
use super::code_tokens::{Kind, Token};
use super::decode::base64;
use super::patterns::starts;
use super::values::{after_last, HOME, HOME_TEXT, UNKNOWN_TEXT};

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

/// A call of a known function.
struct Called<'c> {
    k: usize,
    function: &'c str,
    last: &'c str,
    /// Of one that deletes: whether it takes everything below.
    tree: Option<bool>,
}

/// Tokens with the names that are known in them.
pub struct Seen<'s, 't> {
    /// All of them.
    pub tokens: &'s [Token<'t>],
    /// Names that are bound to a literal.
    pub names: HashMap<&'t str, String>,
    /// Other names of what was imported.
    pub aliases: HashMap<&'t str, &'t str>,
}

impl Seen<'_, '_> {
    fn at(&self, k: usize) -> &str {
        self.tokens.get(k).map_or("", |t| t.text)
    }

    /// The acts of a call that starts at token `k`, if it is one of a known function with literal arguments.
    pub fn call(&self, k: usize, function: &str) -> Vec<Act> {
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
