//! `secrets`: masks API keys, tokens, passwords and private keys, as `engine/detectors/secrets.py`.
//!
//! The forms of issuers stand in `forms.txt`, which is written from the Python table; a test holds them together.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem;

use crate::detectors::finds::Kinds;
use crate::detectors::walk::{visible, Found};
use crate::rx::sets::{is_alpha, is_digit};
use crate::rx::{Flags, Found as Match, Rx};
use crate::value::Value;

const FORMS: &str = include_str!("forms.txt");
const LEAST: usize = 6; // characters of a text that is looked at
const ROUNDS: usize = 8; // readings of a text: each but the last finds what the one before laid open
const CURL: &str = "curl";
const CURL_REACH: usize = 160; // characters of one command between "curl" and the option that names a user
const NAME_REACH: usize = 41; // the longest name and what may follow it
const FOLD: Flags = Flags {
    fold: true,
    ascii: false,
    dotall: false,
};
const NAMES: [&str; 6] = ["pass", "pw", "secret", "token", "key", "credential"];
const SHORT: [&str; 5] = ["key", "token", "pass", "pw", "pwd"];
const WORDS: [&str; 11] = [
    "pass", "password", "passwd", "pwd", "secret", "token", "none", "null", "true", "false",
    "string",
];

type Pattern = LazyLock<Rx>;

static PEM: Pattern = LazyLock::new(|| {
    Rx::new(concat!(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{40,20000}",
        r"(?:-{1,5}END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
    ))
});
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
static CURL_USER: Pattern = LazyLock::new(|| {
    Rx::new(r#"\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:[\"']?([^\s\"']{3,200})"#)
});
static COOKIE: Pattern = LazyLock::new(|| Rx::new(r"(_gitlab_session=)([a-f0-9]{32})"));
static NAMED: Pattern = LazyLock::new(|| {
    Rx::with(
        concat!(
            r"((passwor[dt]|passwd|passphrase|pwd|pass|pw|secrets?|tokens?|credentials?|api[_.-]?keys?",
            r"|access[_.-]?keys?|auth[_.-]?keys?|keys?)",
            r#"([A-Za-z0-9_.-]{0,30})[\"'`\])]{0,3}\s{0,4}(?::=|={1,3}|=>|:|,|\|\|:?|\s(?=[\"']))\s{0,4}(?:new\s)?)"#,
            r#"(?:\"([^\"\n]{3,500})\"|'([^'\n]{3,500})'|`([^`\n]{3,500})`|([^\s\"'`,;)}\]>]{6,500}))"#
        ),
        FOLD,
    )
});
static ABOUT: Pattern = LazyLock::new(|| {
    Rx::with(
        concat!(
            r"(?:id|ids|name|names|file|url|uri|size|length|path|alias|type|str|chars|st|vars?|variable|vault\w{0,20}",
            r"|\w{0,20}secrets)\Z|_?vault"
        ),
        FOLD,
    )
});
static ANOTHER_WORD: Pattern = LazyLock::new(|| Rx::new(r"[a-z]{2}"));
static PLACEHOLDER: Pattern = LazyLock::new(|| {
    Rx::with(
        concat!(
            r"example|placeholder|change.?me|your|insert|redacted|dummy|sample|fake|xxxx|\*\*\*|\.\.\.|<[^>]{1,60}>",
            r"|\$\{|\$\(|\{\{|%\(|put_|abcdefghijkl|#####"
        ),
        FOLD,
    )
});
static REFERENCE: Pattern = LazyLock::new(|| {
    Rx::new(concat!(
        r"\$[A-Za-z_{(0-9]|[%@&<{(\[]|[A-Za-z_][\w.]{0,80}[(\[]",
        r"|(?:os|process|config|settings|self|this|env)\.|/|\./|https?:"
    ))
});
static CODE_NAME: Pattern = LazyLock::new(|| Rx::new(r"[A-Za-z_]+(?:[._-][A-Za-z_]+){0,10}\Z"));
static DIGIT: Pattern = LazyLock::new(|| Rx::new(r"\d"));
static LETTER: Pattern = LazyLock::new(|| Rx::new(r"[A-Za-z]"));

static ISSUERS: LazyLock<Vec<Form>> =
    LazyLock::new(|| FORMS.lines().filter_map(Form::read).collect());
static LITERALS: LazyLock<(Option<AhoCorasick>, Vec<usize>)> = LazyLock::new(literals);

/// One issuer's form.
struct Form {
    kind: &'static str,
    literals: &'static str,
    pattern: LazyLock<Rx, Box<dyn FnOnce() -> Rx + Send>>,
}

impl Form {
    fn read(line: &'static str) -> Option<Self> {
        let mut fields = line.split('\t');
        let (kind, literals, source) = (fields.next()?, fields.next()?, fields.next()?);
        let compile = move || Rx::new(&format!("(?<![A-Za-z0-9_]){source}(?![A-Za-z0-9])"));
        Some(Self {
            kind,
            literals,
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

/// One reading of a text.
fn redacted<'t>(given: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let mut text = given;
    if text.contains("PRIVATE KEY") {
        text = PEM.replaced(text, |_| kinds.put("PRIVATE_KEY", ""));
    }
    for at in forms_in(&text) {
        if let Some(form) = ISSUERS.get(at) {
            text = form
                .pattern
                .replaced(text, |found| issued(found, form.kind, kinds));
        }
    }
    named(text, kinds)
}

/// The forms of which a literal is there. No label holds one of which a match could begin, so that the text as it
/// was given is enough to look at.
fn forms_in(text: &str) -> Vec<usize> {
    let (automaton, forms) = &*LITERALS;
    let Some(automaton) = automaton else {
        return (0..ISSUERS.len()).collect();
    };
    let mut seen = vec![false; ISSUERS.len()];
    for hit in automaton.find_overlapping_iter(text) {
        let at = forms.get(hit.pattern().as_usize());
        if let Some(known) = at.and_then(|at| seen.get_mut(*at)) {
            *known = true;
        }
    }
    let places = seen.iter().enumerate();
    places
        .filter_map(|(at, known)| known.then_some(at))
        .collect()
}

fn issued(found: &Match<'_>, kind: &'static str, kinds: &mut Kinds) -> String {
    if is_varied(found.whole()) {
        kinds.put(kind, "")
    } else {
        found.whole().to_owned()
    }
}

/// Secrets known by what is said of them.
fn named<'t>(given: Cow<'t, str>, kinds: &mut Kinds) -> Cow<'t, str> {
    let low = given.to_lowercase();
    let mut text = given;
    if text.contains("://") && text.contains('@') {
        text = URL_USER.replaced(text, |m| kept(m, is_written_out, "PASSWORD", kinds));
    }
    if low.contains("authorization") || low.contains("bearer") {
        let random = |value: &str| is_random(value, 2.5);
        text = HEADER.replaced(text, |m| kept(m, random, "TOKEN", kinds));
    }
    if text.contains(CURL) {
        text = users_of_curl(&text, kinds).into();
    }
    if text.contains("_gitlab_session=") {
        text = COOKIE.replaced(text, |m| kept(m, |_| true, "TOKEN", kinds));
    }
    if NAMES.iter().any(|name| low.contains(name)) {
        text = NAMED.replaced_where(text, may_be_named, |m| assignment(m, kinds));
    }
    text
}

/// Whether a text can begin with a name and what stands between it and a value: what `NAMED` needs, read at a glance.
fn may_be_named(text: &[u8]) -> bool {
    let (mut rest, mut blanks) = (text, 0);
    let mut skip = |most: usize, of: fn(&u8) -> bool| {
        let count = rest.iter().take(most + 1).take_while(|b| of(b)).count();
        rest = rest.get(count..).unwrap_or_default();
        (count, rest.first().copied())
    };
    let of_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let of_end = |b: &u8| matches!(b, b'"' | b'\'' | b'`' | b')' | b']');
    let of_blank = |b: &u8| matches!(b, b'\t'..=b'\r' | 0x1c..=b' ');
    for (most, of) in [
        (NAME_REACH, of_name as fn(&u8) -> bool),
        (3, of_end),
        (5, of_blank),
    ] {
        let (count, next) = skip(most, of);
        match next {
            None => return false,
            Some(wide) if wide >= 128 => return true,
            Some(_) if count > most => return false,
            Some(_) => blanks = count,
        }
    }
    match rest.first() {
        Some(b':' | b'=' | b',' | b'|') => blanks <= 4,
        Some(b'"' | b'\'') => blanks > 0,
        _ => false,
    }
}

/// The password of `curl ... -u NAME:PASSWORD`: each option is read once, however many commands stand before it.
fn users_of_curl(text: &str, kinds: &mut Kinds) -> String {
    let curl = |from: usize| {
        let found = memmem::find(text.as_bytes().get(from..)?, CURL.as_bytes())?;
        Some(from + found)
    };
    let mut out = String::new();
    let mut copied = 0;
    let (mut user, mut begun) = (CURL_USER.find_from(text, 0), curl(0));
    while let (Some(found), Some(start)) = (&user, begun) {
        let after = start + CURL.len();
        if found.start() < after {
            user = CURL_USER.find_from(text, after);
            continue;
        }
        if !is_one_command(text.get(after..found.start()).unwrap_or("")) {
            let reach = (4 * CURL_REACH) + CURL.len();
            begun = curl(after.max(found.start().saturating_sub(reach)));
            continue;
        }
        let value = found.group(1).unwrap_or("");
        if is_written_out(value) {
            let label = kinds.put("PASSWORD", value);
            out.push_str(text.get(copied..found.end() - value.len()).unwrap_or(""));
            out.push_str(&label);
            copied = found.end();
        }
        begun = curl(found.end() - CURL.len());
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    out
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

fn assignment(found: &Match<'_>, kinds: &mut Kinds) -> String {
    let text = |number: usize| found.group(number).unwrap_or("");
    let (head, name, rest) = (text(1), text(2).to_lowercase(), text(3));
    let value = (4..=7).find_map(|number| found.group(number)).unwrap_or("");
    let other_word = ANOTHER_WORD.begins(rest) && SHORT.contains(&name.as_str());
    if value.contains("[REDACTED") || ABOUT.is_in(rest) || other_word {
        return found.whole().to_owned();
    }
    let quoted = found.group(7).is_none();
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let secret = if begins(&["pass", "pw", "secret"]) {
        is_password(value, quoted)
    } else {
        is_random(value, if quoted { 3.0 } else { 3.2 })
    };
    if !secret {
        return found.whole().to_owned();
    }
    let kind = if begins(&["pass", "pw"]) {
        "PASSWORD"
    } else {
        "SECRET"
    };
    let label = kinds.put(kind, value);
    if head.contains(value) {
        format!("{head}{label}")
    } else {
        found.whole().replacen(value, &label, 1)
    }
}

/// True of a value that stands for itself, and not for a variable or a placeholder.
fn is_written_out(value: &str) -> bool {
    let low = value.to_lowercase();
    let word = low.trim_matches(['<', '>', '"', '\'']);
    let known = WORDS.contains(&word) || value.contains("[REDACTED");
    !known && !PLACEHOLDER.is_in(value) && !REFERENCE.begins(value)
}

/// True of what may be a password: written out, and neither a word, a type nor a name in code.
fn is_password(value: &str, quoted: bool) -> bool {
    if !is_written_out(value) || !has_four(value) {
        return false;
    }
    let size = value.chars().count();
    if quoted && size >= 6 {
        return !CODE_NAME.begins(value) || is_random(value, 3.0);
    }
    size >= 8 && !value.contains(' ') && DIGIT.is_in(value) && LETTER.is_in(value)
}

/// True of a long value with letters and digits whose characters carry at least `bits` bits each.
fn is_random(value: &str, bits: f64) -> bool {
    let plain = value.trim_matches(['"', '\'']);
    plain.chars().count() >= 16
        && is_written_out(plain)
        && plain.chars().any(is_digit)
        && plain.chars().any(is_alpha)
        && entropy(plain) >= bits
}

/// False of a placeholder in a key's form.
fn is_varied(key: &str) -> bool {
    let start = key.char_indices().rev().take(24).last();
    let end = start.and_then(|(at, _)| key.get(at..)).unwrap_or("");
    entropy(end) >= 2.2 && !PLACEHOLDER.is_in(key)
}

/// Whether a text has four different characters.
fn has_four(text: &str) -> bool {
    let mut seen: Vec<char> = Vec::new();
    for c in text.chars() {
        if !seen.contains(&c) {
            seen.push(c);
        }
        if seen.len() == 4 {
            return true;
        }
    }
    false
}

/// How often each character stands in a text, in the order in which they come first.
fn counted(text: &str) -> Vec<(char, u32)> {
    let mut counts: Vec<(char, u32)> = Vec::new();
    for c in text.chars() {
        match counts.iter_mut().find(|(known, _)| *known == c) {
            Some((_, count)) => *count += 1,
            None => counts.push((c, 1)),
        }
    }
    counts
}

/// Bits a character (Shannon).
fn entropy(text: &str) -> f64 {
    let counts = counted(text);
    let size: u32 = counts.iter().map(|(_, count)| count).sum();
    let parts = counts
        .iter()
        .map(|(_, count)| f64::from(*count) / f64::from(size));
    -parts.map(|part| part * part.log2()).sum::<f64>()
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
