//! The grammar of one program: how its command line is read and what it would do, from the JSON that both engines read.
//!
//! The format is told in `interlock/engine/analysis/grammar.py`, which also refuses what is no grammar.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::effects::EFFECTS;
use super::fnmatch;

const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/grammars.rs"));
const INDEX: &str = "index";
const MAX_LEVELS: usize = 4;
#[rustfmt::skip]
const SCOPES: &[&str] = &[
    "cloud", "device", "home", "host", "outside", "place", "remote", "root", "system", "temp", "unknown", "worktree",
];
type Document = Map<String, Value>;

/// A text with `*` and `?`, in lower case.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    pattern: Option<fnmatch::Pattern>,
}

impl Glob {
    /// A glob without regard to case.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        let pattern = text
            .contains(['*', '?'])
            .then(|| fnmatch::Pattern::new(&text));
        Glob { text, pattern }
    }

    fn takes(&self, low: &str) -> bool {
        low == self.text
            || self
                .pattern
                .as_ref()
                .is_some_and(|pattern| pattern.matches(low))
    }
}

/// Whether the text is like one of the globs, without regard to case.
#[must_use]
pub fn like(text: &str, globs: &[Glob]) -> bool {
    let low = text.to_lowercase();
    globs.iter().any(|glob| glob.takes(&low))
}

/// Options of which one must be given: names as they are, and names with a `*`.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names as they are.
    pub plain: Vec<&'static str>,
    /// Names with a `*`.
    pub globs: Vec<Glob>,
}

impl Names {
    /// Whether no option is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.globs.is_empty()
    }
}

/// All fields must hold; an empty one holds.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Of these options one must be given.
    pub any: Names,
    /// Each of these options must be given.
    pub all: Vec<Names>,
    /// None of these options may be given.
    pub none: Names,
    /// Of these patterns one must be found; with true, at the first operand.
    pub words: Vec<(bool, Vec<Glob>)>,
    /// At least so many operands.
    pub operands: usize,
    /// One operand is like one of them.
    pub operand: Vec<Glob>,
    /// Of one option the last value is like one of the globs.
    pub value: Vec<(&'static str, Vec<Glob>)>,
    /// A `--` with operands behind it.
    pub separator: Option<bool>,
    /// Something comes on standard input.
    pub stdin: Option<bool>,
    /// An operand has a `*` or `?` in it.
    pub globbed: Option<bool>,
    /// The last operand is like one of them.
    pub last: Vec<Glob>,
    /// The last operand names a place on another machine.
    pub remote: Option<bool>,
    /// The program has no arguments at all.
    pub bare: Option<bool>,
}

/// Something that is always, never, or with one of some options the case.
#[derive(Clone, Debug)]
pub enum Switch {
    /// Always or never.
    Fixed(bool),
    /// With one of these options.
    With(Names),
}

/// Which arguments are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All operands.
    All,
    /// The first operand.
    First,
    /// The last operand.
    Last,
    /// All but the last.
    ButLast,
    /// All from this place on.
    From(usize),
    /// Those behind a `--`.
    AfterDashes,
    /// The file that the first operand's URL would be saved as.
    UrlName,
    /// What comes on standard input.
    Stdin,
    /// The current directory.
    Here,
    /// Operands named like compressed files, without that ending.
    Stem,
    /// The values of an option.
    Option(&'static str),
}

/// One thing that a call does; the fields are those of the format.
#[derive(Clone, Debug)]
pub struct Effect {
    /// What is done, where no intent is named.
    pub act: &'static str,
    /// Which arguments it is about.
    pub of: Vec<Selection>,
    /// The intent's name, or "".
    pub intent: &'static str,
    /// The text that is told where `of` selects nothing.
    pub target: &'static str,
    /// A scope, `host` or `place`.
    pub scope: &'static str,
    /// Scopes of the arguments that count.
    pub only: Vec<&'static str>,
    /// For delete and mode.
    pub recursive: Switch,
    /// For write.
    pub append: Switch,
    /// Files that arrive under the target of a write.
    pub source: Vec<Selection>,
    /// What a written file will hold: `stdin`, `net` or "".
    pub content: &'static str,
    /// The URLs of data that are sent.
    pub to: Vec<Selection>,
    /// Options whose value names a file that is sent.
    pub files: Vec<&'static str>,
    /// Must hold.
    pub when: Option<Condition>,
    /// Must not hold.
    pub unless: Option<Condition>,
}

/// A program, or one of its subcommands.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Letters that take a value.
    pub short: String,
    /// Other options that take a value.
    pub long: Vec<&'static str>,
    /// Options whose value stands in the same argument.
    pub attached: Vec<&'static str>,
    /// Whether the first operand ends the options.
    pub leading: bool,
    /// Whether it has a harmless part: the program's arguments are data.
    pub reads: bool,
    /// Whether this level's options may stand behind a subcommand.
    pub anywhere: bool,
    /// Options that turn the call into one that only prints.
    pub help: Vec<&'static str>,
    /// What the call does, in the order in which it is told.
    pub effects: Vec<Effect>,
    /// Subcommands, by each of their names.
    pub commands: HashMap<&'static str, usize>,
    /// The levels of the subcommands.
    pub inner: Vec<Level>,
}

/// The grammar of a program or alias, read when it is first met.
#[must_use]
pub fn grammar(program: &str) -> Option<&'static Level> {
    let at = NAMES.get(program)?;
    let (slot, (_, text)) = (READ.get(*at)?, FILES.get(*at)?);
    slot.get_or_init(|| compiled(text)).as_ref()
}

/// Each program and alias that has a grammar.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.keys().copied()
}

static READ: [OnceLock<Option<Level>>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
static NAMES: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    let text = FILES
        .iter()
        .find(|(name, _)| *name == INDEX)
        .map_or("{}", |(_, text)| text);
    let index: HashMap<String, String> = serde_json::from_str(text).unwrap_or_default();
    let place = |name: &str| FILES.iter().position(|(known, _)| *known == name);
    index
        .into_iter()
        .filter_map(|(program, name)| Some((kept(&program), place(&name)?)))
        .collect()
});

/// The grammar of a file's text; None where it is not one.
fn compiled(text: &str) -> Option<Level> {
    let document: Value = serde_json::from_str(text).ok()?;
    level(document.as_object()?, 1)
}

/// A text of a grammar, which lives as long as the program.
fn kept(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn texts(document: &Document, name: &str) -> Option<Vec<&'static str>> {
    match document.get(name) {
        None => Some(Vec::new()),
        Some(value) => value
            .as_array()?
            .iter()
            .map(|one| one.as_str().map(kept))
            .collect(),
    }
}

fn text(document: &Document, name: &str, default: &'static str) -> Option<&'static str> {
    document
        .get(name)
        .map_or(Some(default), |value| value.as_str().map(kept))
}

fn globs(value: Option<&Value>) -> Option<Vec<Glob>> {
    match value {
        None => Some(Vec::new()),
        Some(value) => value
            .as_array()?
            .iter()
            .map(|one| one.as_str().map(Glob::new))
            .collect(),
    }
}

fn named(names: Vec<&'static str>) -> Names {
    let (globs, plain): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.contains('*'));
    let globs = globs.into_iter().map(Glob::new).collect();
    Names { plain, globs }
}

fn level(document: &Document, depth: usize) -> Option<Level> {
    if depth > MAX_LEVELS {
        return None;
    }
    let (letters, long) = texts(document, "values")?
        .into_iter()
        .partition(|v| v.chars().nth(2).is_none());
    let letters: Vec<&str> = letters;
    let mut found = Level {
        short: letters.iter().filter_map(|v| v.chars().nth(1)).collect(),
        long,
        attached: texts(document, "attached")?,
        leading: document.get("leading") == Some(&Value::Bool(true)),
        anywhere: document.get("anywhere") == Some(&Value::Bool(true)),
        help: texts(document, "help")?,
        reads: document.contains_key("harmless"),
        ..Level::default()
    };
    if let Some(effects) = document.get("effects") {
        let effects = effects.as_array()?.iter();
        found.effects = effects
            .map(|one| effect(one.as_object()?))
            .collect::<Option<_>>()?;
    }
    if let Some(commands) = document.get("commands") {
        for (names, inner) in commands.as_object()? {
            for name in names.split('|') {
                found.commands.insert(kept(name), found.inner.len());
            }
            found.inner.push(level(inner.as_object()?, depth + 1)?);
        }
    }
    found.leading = found.leading || !found.inner.is_empty();
    Some(found)
}

fn effect(document: &Document) -> Option<Effect> {
    let kind = document.get("kind")?.as_str().map(kept)?;
    let intent = match document.get("intent") {
        None => "",
        Some(name) => EFFECTS
            .iter()
            .map(|(known, _, _)| *known)
            .find(|known| name == known)?,
    };
    let of = selections(document, "of")?;
    let scope = text(
        document,
        "scope",
        if of.is_empty() { "unknown" } else { "place" },
    )?;
    Some(Effect {
        act: text(document, "act", if intent.is_empty() { kind } else { "" })?,
        intent,
        target: text(document, "target", "")?,
        scope: SCOPES.iter().copied().find(|known| *known == scope)?,
        only: texts(document, "only")?,
        recursive: switch(document, "recursive")?,
        append: switch(document, "append")?,
        source: selections(document, "from")?,
        content: text(document, "content", "")?,
        to: selections(document, "to")?,
        files: texts(document, "files")?,
        when: document
            .get("when")
            .map_or(Some(None), |when| condition(when).map(Some))?,
        unless: document
            .get("unless")
            .map_or(Some(None), |unless| condition(unless).map(Some))?,
        of,
    })
}

fn switch(document: &Document, name: &str) -> Option<Switch> {
    Some(match document.get(name) {
        None => Switch::Fixed(false),
        Some(Value::Bool(fixed)) => Switch::Fixed(*fixed),
        Some(_) => Switch::With(named(texts(document, name)?)),
    })
}

fn selections(document: &Document, name: &str) -> Option<Vec<Selection>> {
    match document.get(name) {
        None => Some(Vec::new()),
        Some(Value::String(one)) => Some(vec![selection(one)?]),
        Some(several) => several
            .as_array()?
            .iter()
            .map(|one| selection(one.as_str()?))
            .collect(),
    }
}

fn selection(text: &str) -> Option<Selection> {
    Some(match text {
        "all" => Selection::All,
        "first" => Selection::First,
        "last" => Selection::Last,
        "rest" => Selection::From(1),
        "but-last" => Selection::ButLast,
        "after--" => Selection::AfterDashes,
        "url-name" => Selection::UrlName,
        "stdin" => Selection::Stdin,
        "cwd" => Selection::Here,
        "stem" => Selection::Stem,
        option if option.starts_with('-') => Selection::Option(kept(option)),
        other => Selection::From(other.strip_prefix("from:")?.parse().ok()?),
    })
}

fn condition(value: &Value) -> Option<Condition> {
    let document = value.as_object()?;
    let truth = |name: &str| document.get(name).and_then(Value::as_bool);
    let mut found = Condition {
        any: named(texts(document, "any")?),
        all: texts(document, "all")?
            .into_iter()
            .map(|name| named(vec![name]))
            .collect(),
        none: named(texts(document, "none")?),
        words: texts(document, "words")?.into_iter().map(spoken).collect(),
        operands: usize::try_from(
            document
                .get("operands")
                .and_then(Value::as_u64)
                .unwrap_or(0),
        )
        .ok()?,
        operand: globs(document.get("operand"))?,
        value: Vec::new(),
        separator: truth("separator"),
        stdin: truth("stdin"),
        globbed: truth("globbed"),
        last: globs(document.get("last"))?,
        remote: truth("remote"),
        bare: truth("bare"),
    };
    if let Some(values) = document.get("value") {
        for (name, wanted) in values.as_object()? {
            found.value.push((kept(name), globs(Some(wanted))?));
        }
    }
    Some(found)
}

/// A pattern of words: whether it is for the first operands only, and its words.
fn spoken(pattern: &str) -> (bool, Vec<Glob>) {
    let (anchored, words) = match pattern.strip_prefix('^') {
        Some(words) => (true, words),
        None => (false, pattern),
    };
    (anchored, words.split_whitespace().map(Glob::new).collect())
}

#[cfg(test)]
mod tests {
    use super::{compiled, grammar, like, Glob, FILES, INDEX, NAMES};

    #[test]
    fn every_file_is_a_grammar_and_every_name_leads_to_one() {
        assert!(FILES.len() > 10 && NAMES.len() >= FILES.len() - 1);
        for (name, text) in FILES.iter().filter(|(name, _)| *name != INDEX) {
            assert!(compiled(text).is_some(), "{name}");
            assert!(NAMES.contains_key(name), "{name}");
        }
        assert!(NAMES.keys().all(|name| grammar(name).is_some()));
        assert!(grammar("no-such-program").is_none());
    }

    #[test]
    fn globs_are_without_regard_to_case() {
        assert!(like("Core.HooksPath=x", &[Glob::new("core.hookspath=*")]));
        assert!(
            like("[a]", &[Glob::new("[a]")]) && !like("a", &[Glob::new("b"), Glob::new("[a]")])
        );
    }
}
