//! `secrets`: masks API keys, tokens, passwords and private keys, as `engine/detectors/secrets.py`.
//!
//! The forms of issuers stand in `forms.txt`, which is written from the Python table; a test holds them together.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem;

use crate::detectors::finds::Kinds;
use crate::detectors::marked::{next_key, next_user};
use crate::detectors::named::{next_named, Named};
use crate::detectors::reading::{holds_word, long_words};
use crate::detectors::values::{is_masked, is_password, is_random, is_varied, is_written_out};
use crate::detectors::walk::{visible, Found};
use crate::rx::{Flags, Found as Match, Rx};
use crate::value::Value;

const FORMS: &str = include_str!("forms.txt");
const LEAST: usize = 6; // characters of a text that is looked at
const LEAST_KEY: usize = 15; // bytes of a key in an issuer's form: none holds a blank, a quote or a comma before that
const LOOKS: usize = 64; // at places where a form may be
const LONG: usize = 512; // bytes of a word that is not looked at for each literal in it
const ROUNDS: usize = 8; // readings of a text: each but the last finds what the one before laid open
const CURL: &str = "curl";
const CURL_REACH: usize = 160; // characters of one command between "curl" and the option that names a user
const FOLD: Flags = Flags {
    fold: true,
    ascii: false,
    dotall: false,
};
const NAMES: [&str; 6] = ["pass", "pw", "secret", "token", "key", "credential"];
const SHORT: [&str; 5] = ["key", "token", "pass", "pw", "pwd"];

type Pattern = LazyLock<Rx>;

static URL_USER: Pattern =
    LazyLock::new(|| Rx::new(r#"(?<=://)([^\s:/@\"'<>]{0,100}:)([^\s/@\"'<>]{3,200})(?=@)"#));
static HEADER: Pattern = LazyLock::new(|| {
    Rx::with(
        concat!(
            r#"((?:authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token|bot)?|\bbearer)\s{1,3})"#,
            r#"([^\s\"',;]{8,3000})"#
        ),
        FOLD,
    )
});
static COOKIE: Pattern = LazyLock::new(|| Rx::new(r"(_gitlab_session=)([a-f0-9]{32})"));
static ABOUT: Pattern = LazyLock::new(|| {
    Rx::with(
        concat!(
            r"(?:id|ids|name|names|file|url|uri|size|length|path|alias|type|str|chars|st|vars?|variable|vault\w{0,20}",
            r"|\w{0,20}secrets)\Z|_?vault"
        ),
        FOLD,
    )
});

static ISSUERS: LazyLock<Vec<Form>> =
    LazyLock::new(|| FORMS.lines().filter_map(Form::read).collect());
static LITERALS: LazyLock<(Option<AhoCorasick>, Vec<usize>)> = LazyLock::new(literals);

/// One issuer's form; `leads` where every match begins with one of its literals.
struct Form {
    kind: &'static str,
    literals: &'static str,
    leads: bool,
    pattern: LazyLock<Rx, Box<dyn FnOnce() -> Rx + Send>>,
}

impl Form {
    fn read(line: &'static str) -> Option<Self> {
        let mut fields = line.split('\t');
        let (kind, literals, source) = (fields.next()?, fields.next()?, fields.next()?);
        let compile = move || Rx::new(&format!("(?<![A-Za-z0-9_]){source}(?![A-Za-z0-9])"));
        let group = source
            .strip_prefix("(?:")
            .and_then(|rest| rest.split_once(')'));
        let is_optional = group.is_some_and(|(_, after)| after.starts_with('?'));
        Some(Self {
            kind,
            literals,
            leads: !source.starts_with(['[', '\\']) && !is_optional,
            pattern: LazyLock::new(Box::new(compile)),
        })
    }
}

/// All literals of all forms in one automaton, and the form of each.
fn literals() -> (Option<AhoCorasick>, Vec<usize>) {
    let rows = ISSUERS.iter().enumerate();
    let pairs = rows.flat_map(|(at, form)| form.literals.split(' ').map(move |text| (text, at)));
    let (texts, forms): (Vec<&str>, Vec<usize>) = pairs.unzip();
    let kind = Some(AhoCorasickKind::DFA); // quick however often a literal is there
    (AhoCorasick::builder().kind(kind).build(texts).ok(), forms)
}

/// What replaces a text, where a secret was found in it.
#[must_use]
pub fn mask(value: &Value<'_>) -> Option<Found> {
    let given = value
        .as_str()
        .filter(|text| text.chars().nth(LEAST - 1).is_some())?;
    let mut kinds = Kinds::default();
    let mut text = visible(given);
    for _ in 0..ROUNDS {
        let before = kinds.count;
        text = redacted(text, &mut kinds);
        if kinds.count == before {
            break;
        }
        text = kinds.spread(text.into_owned()).into();
    }
    (kinds.count > 0).then(|| (text.into_owned(), kinds.names.join(", ")))
}

/// How far a form was found: no literal of it is there, one is, or a match may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Literal(usize),
    Match,
}

/// One reading of a text.
fn redacted<'t>(given: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let mut text = keys(given, kinds);
    let (seen, before) = (forms_in(&text), kinds.count);
    for (form, seen) in ISSUERS.iter().zip(seen) {
        // a label may lay a form open of which nothing but a literal was there
        let may_match = seen == Seen::Match || kinds.count > before;
        if may_match && seen != Seen::Nothing {
            text = form
                .pattern
                .replaced(text, |found| issued(found, form.kind, kinds));
        }
    }
    places(text, kinds)
}

/// Private keys.
fn keys<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let mut out = String::new();
    let mut copied = 0;
    while let Some((start, end)) = next_key(text.as_bytes(), copied) {
        out.push_str(text.get(copied..start).unwrap_or(""));
        kinds.write("PRIVATE_KEY", "", &mut out);
        copied = end;
    }
    rest_of(text, copied, out)
}

/// What was written, and the rest of the text; the text itself where nothing was.
fn rest_of(text: Cow<'_, str>, copied: usize, written: String) -> Cow<'_, str> {
    if copied == 0 {
        return text;
    }
    let mut out = written;
    out.push_str(text.get(copied..).unwrap_or(""));
    out.into()
}

/// What of each form is in the long words of a text; no label holds a literal of which a match could begin.
fn forms_in(text: &str) -> Vec<Seen> {
    let (automaton, forms) = &*LITERALS;
    let Some(automaton) = automaton else {
        return vec![Seen::Match; ISSUERS.len()];
    };
    let mut seen = vec![Seen::Nothing; ISSUERS.len()];
    for word in long_words(text, LEAST_KEY) {
        for hit in automaton.find_overlapping_iter(word) {
            let at = forms.get(hit.pattern().as_usize()).copied().unwrap_or(0);
            if let (Some(held), Some(form)) = (seen.get_mut(at), ISSUERS.get(at)) {
                *held = form.seen_at(word, hit.start(), *held);
            }
        }
    }
    seen
}

impl Form {
    /// What is known of the form after one more of its literals; after many, a match is looked for everywhere.
    fn seen_at(&self, word: &str, at: usize, before: Seen) -> Seen {
        let looks = match before {
            Seen::Match => return before,
            Seen::Literal(looks) => looks + 1,
            Seen::Nothing => 1,
        };
        let is_there = looks > LOOKS
            || (if self.leads {
                self.pattern.match_at(word, at).is_some()
            } else {
                word.len() > LONG || self.pattern.is_in(word)
            });
        if is_there {
            Seen::Match
        } else {
            Seen::Literal(looks)
        }
    }
}

fn issued(found: &Match<'_>, kind: &'static str, kinds: &mut Kinds) -> String {
    if is_varied(found.whole()) {
        kinds.put(kind, "")
    } else {
        found.whole().to_owned()
    }
}

/// Secrets known by their place: what is said of them.
fn places<'t>(given: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let mut text = given;
    let holds = |text: &str, part: &str| memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    let says_who = |text: &str| {
        let bytes = text.as_bytes();
        holds_word(bytes, b"authorization", 7) || holds_word(bytes, b"bearer", 0)
    };
    let has_names = text.is_ascii() || may_have_names(&text);
    let has_header = says_who(&text);
    if holds(&text, "://") && text.as_bytes().contains(&b'@') {
        text = URL_USER.replaced(text, |m| kept(m, is_written_out, "PASSWORD", kinds));
    }
    if has_header {
        let random = |value: &str| is_random(value, 2.5);
        text = HEADER.replaced(text, |m| kept(m, random, "TOKEN", kinds));
    }
    if holds(&text, CURL) {
        text = users_of_curl(text, kinds);
    }
    if holds(&text, "_gitlab_session=") {
        text = COOKIE.replaced(text, |m| kept(m, |_| true, "TOKEN", kinds));
    }
    if has_names {
        text = named(text, kinds);
    }
    text
}

/// Whether one of the names stands in a text: some letters fold to those of a name, and yet not in lower case.
fn may_have_names(text: &str) -> bool {
    if !text.contains(['\u{130}', '\u{131}', '\u{17f}']) {
        return true;
    }
    let low = text.to_lowercase();
    NAMES.iter().any(|name| low.contains(name))
}

/// The password of `curl ... -u NAME:PASSWORD`: each option is read once, however many commands stand before it.
fn users_of_curl<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let bytes = text.as_bytes();
    let curl = |from: usize| {
        let found = memmem::find(bytes.get(from..)?, CURL.as_bytes())?;
        Some(from + found)
    };
    let mut out = String::new();
    let mut copied = 0;
    let (mut user, mut begun) = (next_user(bytes, 0), curl(0));
    while let (Some(found), Some(start)) = (user, begun) {
        let after = start + CURL.len();
        if found.start < after {
            user = next_user(bytes, after);
            continue;
        }
        if !is_one_command(text.get(after..found.start).unwrap_or("")) {
            let reach = (4 * CURL_REACH) + CURL.len();
            begun = curl(after.max(found.start.saturating_sub(reach)));
            continue;
        }
        let (value_start, end) = found.password;
        let value = text.get(value_start..end).unwrap_or("");
        if is_written_out(value) {
            out.push_str(text.get(copied..value_start).unwrap_or(""));
            kinds.write("PASSWORD", value, &mut out);
            copied = end;
        }
        begun = curl(end - CURL.len());
    }
    rest_of(text, copied, out)
}

/// Whether what stands between `curl` and an option is one command's.
fn is_one_command(between: &str) -> bool {
    between.len() <= 4 * CURL_REACH
        && !between.contains(['\n', '|', ';'])
        && between.chars().count() <= CURL_REACH
}

fn kept(
    found: &Match<'_>,
    is_secret: impl Fn(&str) -> bool,
    kind: &'static str,
    kinds: &mut Kinds,
) -> String {
    match found.group(2) {
        Some(value) if is_secret(value) => {
            let label = kinds.put(kind, value);
            format!("{}{label}", found.group(1).unwrap_or(""))
        }
        _ => found.whole().to_owned(),
    }
}

/// Values that have a name.
fn named<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = next_named(&text, at) {
        at = found.end;
        let (start, end) = found.value;
        let value = text.get(start..end).unwrap_or("");
        if let Some(kind) = kind_of(&found, value) {
            let head = text.get(found.start..start).unwrap_or("");
            let begin =
                found.start + place_of(value, head, text.get(found.start..end).unwrap_or(""));
            out.push_str(text.get(copied..begin).unwrap_or(""));
            kinds.write(kind, value, &mut out);
            copied = begin + value.len();
        }
    }
    rest_of(text, copied, out)
}

/// Where the value is replaced, from where the match begins: at its first place, and not in what stands before it.
fn place_of(value: &str, head: &str, whole: &str) -> usize {
    if value.len() <= head.len() && head.contains(value) {
        return head.len();
    }
    memmem::find(whole.as_bytes(), value.as_bytes()).unwrap_or(head.len())
}

/// The kind of secret that a named value is, where it looks like one.
fn kind_of(found: &Named<'_>, value: &str) -> Option<&'static str> {
    if is_masked(value) || (!found.rest.is_empty() && speaks_of_it(found)) {
        return None;
    }
    let begins = |starts: &[&str]| starts.iter().any(|start| begins_with(found.name, start));
    let secret = if begins(&["pass", "pw", "secret"]) {
        is_password(value, found.quoted)
    } else {
        is_random(value, if found.quoted { 3.0 } else { 3.2 })
    };
    let kind = if begins(&["pass", "pw"]) {
        "PASSWORD"
    } else {
        "SECRET"
    };
    secret.then_some(kind)
}

/// Whether the word of a name goes on so that it speaks of a secret and holds none, or is another word.
fn speaks_of_it(found: &Named<'_>) -> bool {
    let goes_on = matches!(found.rest.as_bytes(), [b'a'..=b'z', b'a'..=b'z', ..]);
    let is_short = SHORT.iter().any(|name| found.name.to_lowercase() == *name);
    (goes_on && is_short) || ABOUT.is_in(found.rest)
}

/// Whether a name begins with a word in lower case, as `str.lower` of Python sees it.
fn begins_with(name: &str, word: &str) -> bool {
    if name.is_ascii() {
        let start = name.as_bytes().get(..word.len());
        return start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    }
    name.to_lowercase().starts_with(word)
}

#[cfg(test)]
mod tests {
    use super::{mask, ISSUERS};
    use crate::value::Value;

    #[test]
    fn every_form_compiles() {
        assert!(ISSUERS.len() > 50);
        assert!(ISSUERS.iter().all(|form| !form.pattern.is_in("nothing")));
    }

    #[test]
    fn secrets_are_masked_and_what_speaks_of_them_is_not() {
        let masked = |text: &str| {
            mask(&Value::Str(text.into())).map(|(text, kinds)| format!("{text} | {kinds}"))
        };
        for (text, expected) in [
            (
                "key AKIAQ7DGH5JKLQWE7T2M!",
                "key [REDACTED AWS_KEY]! | AWS_KEY",
            ),
            (
                "password = 'hunter2hunter2'",
                "password = '[REDACTED PASSWORD]' | PASSWORD",
            ),
            (
                "https://me:s3cr3tw0rd@h.example/",
                "https://me:[REDACTED PASSWORD]@h.example/ | PASSWORD",
            ),
            (
                "curl -u me:s3cr3tw0rd h.example",
                "curl -u me:[REDACTED PASSWORD] h.example | PASSWORD",
            ),
        ] {
            assert_eq!(masked(text).as_deref(), Some(expected));
        }
        for text in [
            "password = os.environ['X']",
            "AKIAXXXXXXXXXXXXXXXX",
            "token_file: /etc/token",
            "pass",
        ] {
            assert_eq!(masked(text), None, "{text}");
        }
    }
}
