//! What code of a scripting language does to all of something: files that it lists, a database, a store.

use std::sync::LazyLock;

use super::code_scan::last_part;
use super::code_tokens::{Kind, Token};
use super::patterns::Pattern;

static EMPTIES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"\.(?:flush_?[aA]ll|flush_?[dD]b|drop_?[dD]atabase|drop_?[cC]ollection|drop_all)\(",
        r"|\b(?:delete_many|deleteMany)\((?:\{\})?\)|\.all\(\)\.delete\(",
    ))
});
#[rustfmt::skip]
const DELETERS: &[&str] = &[
    "remove", "unlink", "rmtree", "rmSync", "unlinkSync", "rm", "delete", "removeSync", "rm_rf", "rmdir",
];
#[rustfmt::skip]
const LISTERS: &[&str] = &[
    "glob", "iglob", "rglob", "globSync", "iterdir", "listdir", "scandir", "walk", "readdirSync", "readdir",
];
const BY_PATTERN: &[&str] = &["glob", "iglob", "rglob", "globSync"];
const MAX_LISTED: usize = 16;

/// The call by which the code empties a database or a store.
#[must_use]
pub fn emptied(tokens: &[Token<'_>]) -> Option<String> {
    let plain: String = tokens
        .iter()
        .map(|t| match t.kind {
            Kind::Name | Kind::Other => t.text,
            _ => "\"\"",
        })
        .collect();
    let found = EMPTIES.find(&plain)?;
    Some(found.trim_matches(['.', '(']).to_owned())
}

/// What the code lists by a literal path or pattern, where it also deletes something that is not literal.
#[must_use]
pub fn listed_and_deleted(tokens: &[Token<'_>]) -> Vec<String> {
    let code = Code(tokens);
    let mut found = Vec::new();
    if !(0..tokens.len()).any(|k| code.deletes(k)) {
        return found;
    }
    for (k, token) in tokens.iter().enumerate() {
        let name = if token.kind == Kind::Name {
            last_part(token.text)
        } else {
            ""
        };
        if !LISTERS.contains(&name) || code.text(k + 1) != "(" || found.len() == MAX_LISTED {
            continue;
        }
        let (given, base) = (code.literal(k + 2), code.base(k));
        if BY_PATTERN.contains(&name) && !given.is_empty() {
            found.push(if base.is_empty() {
                given.to_owned()
            } else {
                format!("{base}/{given}")
            });
        } else if !base.is_empty() || !given.is_empty() {
            found.push(format!("{}/*", if base.is_empty() { given } else { base }));
        }
    }
    found
}

/// Tokens by their place.
struct Code<'c, 't>(&'c [Token<'t>]);

impl<'t> Code<'_, 't> {
    fn text(&self, k: usize) -> &'t str {
        self.0.get(k).map_or("", |t| t.text)
    }

    /// `os.remove(name`, `name.unlink()`, or the name of such a function as a literal.
    fn deletes(&self, k: usize) -> bool {
        let Some(token) = self.0.get(k) else {
            return false;
        };
        if token.kind == Kind::Str {
            return DELETERS.contains(&self.literal(k));
        }
        token.kind == Kind::Name
            && DELETERS.contains(&last_part(token.text))
            && self.text(k + 1) == "("
            && self.0.get(k + 2).is_some_and(|follows| {
                follows.kind == Kind::Name || (follows.text == ")" && token.text.contains('.'))
            })
    }

    /// The text of a plain string literal, empty for all else.
    fn literal(&self, k: usize) -> &'t str {
        let Some(token) = self.0.get(k).filter(|t| t.kind == Kind::Str) else {
            return "";
        };
        let body = token
            .text
            .trim_start_matches(['r', 'b', 'f', 'u', 'R', 'B', 'F', 'U']);
        let quoted = |quote: char| body.strip_prefix(quote)?.strip_suffix(quote);
        let inner = quoted('"').or_else(|| quoted('\'')).unwrap_or("");
        if inner.contains(['\'', '"', '\\', '\n']) {
            return "";
        }
        inner
    }

    /// The literal of a call right before: `Path("/x").rglob`.
    fn base(&self, k: usize) -> &'t str {
        let before = |back: usize| k.checked_sub(back);
        let shut = before(1).map(|k| self.text(k)) == Some(".")
            && before(2).map(|k| self.text(k)) == Some(")");
        let base = before(3).filter(|_| shut).map_or("", |k| self.literal(k));
        match base.trim_end_matches('/') {
            "" if !base.is_empty() => "/",
            plain => plain,
        }
    }
}
