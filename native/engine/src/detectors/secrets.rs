//! `secrets`: masks API keys, tokens, passwords and private keys, as `engine/detectors/secrets.py`.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::{memchr2_iter, memmem};

use crate::detectors::finds::{Kinds, TooMany};
use crate::detectors::forms::ISSUERS;
use crate::detectors::marked::{next_header, next_key, next_url_user, next_user};
use crate::detectors::named::{next_named, Named};
use crate::detectors::places::Places;
use crate::detectors::reading::holds_word;
use crate::detectors::values::{is_masked, is_password, is_random, is_varied, is_written_out};
use crate::detectors::walk::{visible, Found};
use crate::rx::{Flags, Found as Match, Rx};
use crate::value::Value;

const LEAST: usize = 6; // characters of a text that is looked at
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
type Read<'t> = Result<Cow<'t, str>, TooMany>;

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

/// Its words at the end; the other one is "vault".
const ABOUT_ENDS: [&[u8]; 19] = [
    b"id",
    b"ids",
    b"name",
    b"names",
    b"file",
    b"url",
    b"uri",
    b"size",
    b"length",
    b"path",
    b"alias",
    b"type",
    b"str",
    b"chars",
    b"st",
    b"var",
    b"vars",
    b"variable",
    b"secrets",
];

/// What replaces a text, where a secret was found in it.
#[must_use]
pub fn mask(value: &Value<'_>, most: usize) -> Option<Found> {
    let given = value
        .as_str()
        .filter(|text| text.chars().nth(LEAST - 1).is_some())?;
    let mut kinds = Kinds::new(most);
    let read = rounds(given, &mut kinds);
    kinds.found(read)
}

/// The text, read again until nothing more is found.
fn rounds<'t>(given: &'t str, kinds: &mut Kinds) -> Read<'t> {
    let mut text = visible(given);
    for _ in 0..ROUNDS {
        let before = kinds.count;
        text = redacted(text, kinds)?;
        if kinds.count == before {
            break;
        }
        text = kinds.spread(text.into_owned()).into();
    }
    Ok(text)
}

/// One reading of a text.
fn redacted<'t>(given: Cow<'t, str>, kinds: &mut Kinds) -> Read<'t> {
    let mut text = keys(given, kinds)?;
    let (mut issuers, before) = (Places::of(&text), kinds.count);
    for form in ISSUERS.iter() {
        if issuers.may_hold(form) {
            text = issuers.replaced(form, text, |found| issued(found, form.kind, kinds))?;
        }
    }
    let named = issuers.named || kinds.count > before; // a label may hold a name
    places(text, named, issuers.headed, kinds)
}

/// Private keys.
fn keys<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Read<'t> {
    let mut out = String::new();
    let mut copied = 0;
    while let Some((start, end)) = next_key(text.as_bytes(), copied) {
        out.push_str(text.get(copied..start).unwrap_or(""));
        kinds.write("PRIVATE_KEY", "", &mut out)?;
        copied = end;
    }
    Ok(rest_of(text, copied, out))
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

fn issued(found: &str, kind: &'static str, kinds: &mut Kinds) -> Result<Option<String>, TooMany> {
    is_varied(found).then(|| kinds.put(kind, "")).transpose()
}

/// Secrets known by their place: what is said of them. `named` where a part of a name may stand there, `headed` where
/// a header may begin.
fn places<'t>(given: Cow<'t, str>, named: bool, headed: bool, kinds: &mut Kinds) -> Read<'t> {
    let before = kinds.count;
    let mut text = given;
    let holds = |text: &str, part: &str| memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    let says_who = |text: &str| {
        let bytes = text.as_bytes();
        holds_word(bytes, b"authorization", 7) || holds_word(bytes, b"bearer", 0)
    };
    let has_names = text.is_ascii() || may_have_names(&text);
    let has_header = headed && says_who(&text);
    if holds(&text, "://") && text.as_bytes().contains(&b'@') {
        text = users_of_urls(text, kinds)?;
    }
    if has_header {
        let random = |value: &str| is_random(value, 2.5);
        text = HEADER.try_replaced_at(text, next_header, |m| kept(m, random, "TOKEN", kinds))?;
    }
    if holds(&text, CURL) {
        text = users_of_curl(text, kinds)?;
    }
    if holds(&text, "_gitlab_session=") {
        text = COOKIE.try_replaced(text, |m| kept(m, |_| true, "TOKEN", kinds))?;
    }
    if has_names && (named || kinds.count > before) {
        text = values_with_names(text, kinds)?;
    }
    Ok(text)
}

/// Whether one of the names stands in a text: some letters fold to those of a name, and yet not in lower case.
fn may_have_names(text: &str) -> bool {
    let bytes = text.as_bytes();
    let folds = |at: usize| {
        matches!(
            bytes.get(at..),
            Some([0xc4, 0xb0 | 0xb1, ..] | [0xc5, 0xbf, ..])
        )
    };
    if !memchr2_iter(0xc4, 0xc5, bytes).any(folds) {
        return true; // none of U+0130, U+0131 and U+017F is there
    }
    let low = text.to_lowercase();
    NAMES.iter().any(|name| low.contains(name))
}

/// The passwords of `scheme://user:password@host`.
fn users_of_urls<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Read<'t> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some((start, end)) = next_url_user(text.as_bytes(), at) {
        at = end;
        let value = text.get(start..end).unwrap_or("");
        if is_written_out(value) {
            out.push_str(text.get(copied..start).unwrap_or(""));
            kinds.write("PASSWORD", value, &mut out)?;
            copied = end;
        }
    }
    Ok(rest_of(text, copied, out))
}

/// The password of `curl ... -u NAME:PASSWORD`: each option is read once, however many commands stand before it.
fn users_of_curl<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Read<'t> {
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
            kinds.write("PASSWORD", value, &mut out)?;
            copied = end;
        }
        begun = curl(end - CURL.len());
    }
    Ok(rest_of(text, copied, out))
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
) -> Result<Option<String>, TooMany> {
    let Some(value) = found.group(2).filter(|value| is_secret(value)) else {
        return Ok(None);
    };
    let label = kinds.put(kind, value)?;
    Ok(Some(format!("{}{label}", found.group(1).unwrap_or(""))))
}

/// Values that have a name.
fn values_with_names<'t>(text: Cow<'t, str>, kinds: &mut Kinds) -> Read<'t> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = next_named(&text, at) {
        at = found.end;
        let (start, end) = found.value;
        let value = text.get(start..end).unwrap_or("");
        if let Some(kind) = kind_of(&found, value) {
            let head = text.get(found.start..start).unwrap_or("");
            let whole = text.get(found.start..end).unwrap_or("");
            let begin = found.start + place_of(value, head, whole, found.quoted);
            out.push_str(text.get(copied..begin).unwrap_or(""));
            kinds.write(kind, value, &mut out)?;
            copied = begin + value.len();
        }
    }
    Ok(rest_of(text, copied, out))
}

/// Where the value is replaced, from where the match begins: at its first place, and not in what stands before it.
fn place_of(value: &str, head: &str, whole: &str, quoted: bool) -> usize {
    let before = head.bytes().next_back();
    // a place that begins in the head and ends in the value holds the head's last character
    if quoted || before == Some(b' ') || (value.len() <= head.len() && head.contains(value)) {
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
    let is_pass = begins(&["pass", "pw"]);
    let secret = if is_pass || begins(&["secret"]) {
        is_password(value, found.quoted)
    } else {
        is_random(value, if found.quoted { 3.0 } else { 3.2 })
    };
    secret.then_some(if is_pass { "PASSWORD" } else { "SECRET" })
}

/// Whether the word of a name goes on so that it speaks of a secret and holds none, or is another word.
fn speaks_of_it(found: &Named<'_>) -> bool {
    let goes_on = matches!(found.rest.as_bytes(), [b'a'..=b'z', b'a'..=b'z', ..]);
    (goes_on && is_short(found.name)) || is_about(found.rest)
}

/// Whether a name is one of those that begin other words, too.
fn is_short(name: &str) -> bool {
    if name.is_ascii() {
        return SHORT.iter().any(|short| short.eq_ignore_ascii_case(name));
    }
    SHORT.contains(&&*name.to_lowercase())
}

/// Whether the rest of a name's word says that it speaks of a secret.
fn is_about(rest: &str) -> bool {
    if !rest.is_ascii() {
        return ABOUT.is_in(rest);
    }
    let bytes = rest.as_bytes();
    let ends = |word: &&[u8]| {
        let start = bytes.len().checked_sub(word.len());
        start
            .and_then(|start| bytes.get(start..))
            .is_some_and(|end| end.eq_ignore_ascii_case(word))
    };
    ABOUT_ENDS.iter().any(ends) || holds_word(bytes, b"vault", 0)
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
    use super::{is_about, mask, ABOUT};
    use crate::detectors::finds::MOST;
    use crate::detectors::reading::mixed;
    use crate::value::Value;

    #[test]
    fn what_a_name_says_of_a_secret_is_read_as_the_pattern_reads_it() {
        let pieces = [
            "id", "Names", "URL", "st", "str", "var", "vault", "VAULT", "variable", "secrets", "x",
            "_", ".", "-", "s",
        ];
        let texts = (0..4_000).map(|seed| mixed(&pieces, seed, 3));
        let about = texts.filter(|text| {
            assert_eq!(is_about(text), ABOUT.is_in(text), "{text:?}");
            is_about(text)
        });
        assert!((500..3_900).contains(&about.count()));
    }

    #[test]
    fn secrets_are_masked_and_what_speaks_of_them_is_not() {
        let masked = |text: &str| {
            mask(&Value::Str(text.into()), MOST).map(|(text, kinds)| format!("{text} | {kinds}"))
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
