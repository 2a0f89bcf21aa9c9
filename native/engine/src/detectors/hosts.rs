//! Which host a text leads to, read so that no spelling hides it: as `engine/detectors/hosts.py`.

use crate::detectors::addresses::{ipv4, ipv6, is_number};
use crate::matching::Unjudged;

const MAX_HOST: usize = 1000;
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Characters of a scheme.
pub const MAX_SCHEME: usize = 32;
const DEVIATING: [char; 5] = ['\u{df}', '\u{1e9e}', '\u{3c2}', '\u{200c}', '\u{200d}'];

/// Why a text names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHost {
    /// It cannot be read in one way only, as one line says.
    Bad(&'static str),
    /// Its international name is for Python to read.
    Unable,
}

type Host<T> = Result<T, NoHost>;

/// A host that a text names, where it can be read; what cannot be read names none here.
///
/// # Errors
/// Where this engine cannot read it.
pub fn readable<T>(host: Host<T>) -> Result<Option<T>, Unjudged> {
    match host {
        Ok(host) => Ok(Some(host)),
        Err(NoHost::Bad(_)) => Ok(None),
        Err(NoHost::Unable) => Err(Unjudged::Unable),
    }
}

/// The first characters of a text.
#[must_use]
pub fn head(text: &str, characters: usize) -> &str {
    if text.len() <= characters {
        return text;
    }
    if let Some(plain) = text.get(..characters).filter(|start| start.is_ascii()) {
        return plain;
    }
    if text.chars().count() <= characters {
        return text; // characters are counted many at a time, and found one by one
    }
    text.char_indices()
        .nth(characters)
        .and_then(|(end, _)| text.get(..end))
        .unwrap_or(text)
}

/// The normal form of the host that a URL leads to; none where the text is no URL or names no host. `bare` is for a
/// place that can hold nothing but a URL.
///
/// # Errors
/// Where it cannot be read in one way only.
pub fn host_of_url(text: &str, bare: bool) -> Host<Option<String>> {
    let text = text.trim_matches(|c| c <= ' ');
    let cleaned: String;
    // all bytes are looked at together, which is faster than to stop at the first
    let dropped = |found, b: &u8| found | matches!(b, b'\t' | b'\n' | b'\r');
    let text = if text.as_bytes().iter().fold(false, dropped) {
        cleaned = text.replace(['\t', '\n', '\r'], "");
        cleaned.as_str()
    } else {
        text
    };
    host_of_clean(text, bare)
}

/// The same of a URL within which no tab and no line feed stands, and no blank at its ends.
///
/// # Errors
/// Where it cannot be read in one way only.
pub fn host_of_clean(text: &str, bare: bool) -> Host<Option<String>> {
    let Some((scheme, rest)) = scheme_of(text) else {
        return if bare { without_scheme(text) } else { Ok(None) };
    };
    if bare {
        match rest.chars().next() {
            Some(c) if !c.is_ascii() => return Err(NoHost::Unable),
            Some(c) if c.is_ascii_digit() => return without_scheme(text),
            _ => {}
        }
    }
    let scheme = scheme.to_ascii_lowercase();
    if ["http", "https", "ws", "wss", "ftp"].contains(&scheme.as_str()) {
        return authority(rest.trim_start_matches(['/', '\\'])).map(Some);
    }
    let slash = |c: char| c == '/' || c == '\\';
    let Some(place) = rest
        .strip_prefix(slash)
        .and_then(|rest| rest.strip_prefix(slash))
    else {
        return Ok(None);
    };
    if scheme == "file" && (place.is_empty() || place.starts_with(slash)) {
        return Ok(None);
    }
    authority(place).map(Some)
}

/// A scheme before a colon, and what stands after it.
#[must_use]
pub fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    is_scheme(scheme).then_some((scheme, rest))
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_SCHEME
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(is_scheme_byte)
}

/// Whether a byte may stand in a scheme.
#[must_use]
pub fn is_scheme_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-')
}

fn without_scheme(text: &str) -> Host<Option<String>> {
    let slash = |c: char| c == '/' || c == '\\';
    if let Some(place) = text
        .strip_prefix(slash)
        .and_then(|rest| rest.strip_prefix(slash))
    {
        return authority(place).map(Some);
    }
    match text.chars().next() {
        None | Some('/' | '\\' | '?' | '#' | '.') => Ok(None),
        Some(_) => authority(text).map(Some),
    }
}

fn authority(rest: &str) -> Host<String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let mut authority = rest.get(..end).unwrap_or(rest);
    if let Some((before, _)) = authority.split_once('\\') {
        if authority.contains('@') {
            return Err(NoHost::Bad("a backslash stands before the host"));
        }
        authority = before;
    }
    let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains('@') {
        return Err(NoHost::Bad("more than one @ stands before the host"));
    }
    let (host, port) = host_port(place)?;
    if !port.is_empty() && !is_port(port) {
        return Err(NoHost::Bad("the port is not a number"));
    }
    normal_host(host)
}

fn is_port(port: &str) -> bool {
    let digits = port.trim_start_matches('0');
    port.bytes().all(|b| b.is_ascii_digit()) && (digits.is_empty() || digits.parse::<u16>().is_ok())
}

fn host_port(place: &str) -> Host<(&str, &str)> {
    if !place.starts_with('[') {
        return Ok(place.split_once(':').unwrap_or((place, "")));
    }
    let end = place
        .find(']')
        .ok_or(NoHost::Bad("the address is not closed"))?;
    let (host, after) = place.split_at(end + 1);
    match after.strip_prefix(':') {
        Some(port) => Ok((host, port)),
        None if after.is_empty() => Ok((host, "")),
        None => Err(NoHost::Bad("the address is not closed")),
    }
}

/// A host name in lower-case ASCII without its root dot, or an address in its usual form.
///
/// # Errors
/// Where it cannot be read in one way only.
pub fn normal_host(text: &str) -> Host<String> {
    if text.starts_with('[') {
        return ipv6(text).map_err(NoHost::Bad);
    }
    if text.is_empty() || text.chars().count() > MAX_HOST {
        return Err(NoHost::Bad("the host is empty or too long"));
    }
    if !text.is_ascii() {
        return Err(if text.contains(DEVIATING) {
            NoHost::Bad("the host holds a character that clients read in two ways")
        } else {
            NoHost::Unable
        });
    }
    let lower = text.to_ascii_lowercase();
    let host = lower.strip_suffix('.').unwrap_or(&lower);
    if host.len() > MAX_NAME || !host.split('.').all(is_label) {
        return Err(NoHost::Bad("the host holds characters that no host has"));
    }
    if is_number(host.rsplit('.').next().unwrap_or("")) {
        return ipv4(host).map_err(NoHost::Bad);
    }
    Ok(host.to_owned())
}

fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// `\s` of Python.
#[must_use]
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::{host_of_url, normal_host, NoHost};

    #[test]
    fn no_spelling_hides_a_host() {
        let cases = [
            ("https://Evil.Example./x", Some("evil.example")),
            ("http:evil.example", Some("evil.example")),
            ("http:\\\\evil.example\\x", Some("evil.example")),
            ("https://user:pw@evil.example:443/x", Some("evil.example")),
            ("http://0x7f.1/", Some("127.0.0.1")),
            ("http://2130706433/", Some("127.0.0.1")),
            ("http://[::ffff:1.2.3.4]/", Some("1.2.3.4")),
            ("file:///etc/passwd", None),
            ("mailto:a@b", None),
            ("evil.example", None),
        ];
        for (url, host) in cases {
            assert_eq!(
                host_of_url(url, false),
                Ok(host.map(str::to_owned)),
                "{url}"
            );
        }
        assert_eq!(
            host_of_url("evil.example:8080/x", true),
            Ok(Some("evil.example".to_owned()))
        );
        for bad in [
            "http://a\\@b/",
            "http://a@b@c/",
            "http://1.2.3.256/",
            "http://[::1%eth0]/",
            "http://017.1/",
        ] {
            assert!(
                matches!(host_of_url(bad, false), Err(NoHost::Bad(_))),
                "{bad}"
            );
        }
        assert_eq!(normal_host("münchen.example"), Err(NoHost::Unable));
    }
}
