//! Which host a text leads to, read so that no spelling hides it: as `engine/detectors/hosts.py`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::matching::Unjudged;

/// Hosts at which clouds hand out credentials to the machines that ask.
pub const CLOUD_METADATA: [&str; 14] = [
    "100.100.100.200",
    "169.254.169.253",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "192.0.0.192",
    "fd00:ec2::23",
    "fd00:ec2::254",
    "fd20:ce::254",
    "instance-data",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
];

const MAX_HOST: usize = 1000;
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
const MAX_SCHEME: usize = 32;
const MAX_SHOWN: usize = 2000; // characters of one URL in a text
const LOCAL: [&str; 9] = [
    "localhost",
    "local",
    "internal",
    "lan",
    "home.arpa",
    "intranet",
    "corp",
    "test",
    "invalid",
];
const DEVIATING: [char; 5] = ['\u{df}', '\u{1e9e}', '\u{3c2}', '\u{200c}', '\u{200d}'];
/// Networks that are no public ones: address, bits of the prefix.
const NO_PUBLIC_V4: [([u8; 4], u32); 14] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 29),
    ([192, 0, 0, 170], 31),
    ([192, 0, 2, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([240, 0, 0, 0], 4),
];
const NO_PUBLIC_V6: [([u16; 8], u32); 9] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 127), // :: and ::1
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
];

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

fn is_scheme_byte(b: u8) -> bool {
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
        return ipv6(text);
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
        return ipv4(host);
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

fn is_number(label: &str) -> bool {
    if let Some(hex) = label.strip_prefix("0x") {
        return hex
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    }
    !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit())
}

fn ipv6(text: &str) -> Host<String> {
    let bad = NoHost::Bad("the address is no IPv6 address");
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or(bad)?;
    let (address, zone) = inner
        .split_once('%')
        .map_or((inner, None), |(a, z)| (a, Some(z)));
    let address: Ipv6Addr = address.parse().map_err(|_| bad)?;
    match zone {
        None => {}
        Some(zone) if zone.is_empty() || zone.contains('%') => return Err(bad),
        Some(_) => return Err(NoHost::Bad("the address names a network interface")),
    }
    Ok(address
        .to_ipv4_mapped()
        .map_or_else(|| address.to_string(), |v4| v4.to_string()))
}

/// WHATWG URL, 3.5 (IPv4 parser): one to four numbers, decimal or hexadecimal, the last fills what is left.
fn ipv4(host: &str) -> Host<String> {
    let bad = NoHost::Bad("the address is no IPv4 address");
    let labels: Vec<&str> = host.split('.').collect();
    if labels.len() > 4 || !labels.iter().all(|label| is_number(label)) {
        return Err(bad);
    }
    let is_octal =
        |label: &&str| label.len() > 1 && label.starts_with('0') && !label.starts_with("0x");
    if labels.iter().any(is_octal) {
        return Err(NoHost::Bad(
            "the address begins a number with 0, which clients read in two ways",
        ));
    }
    let mut value: u64 = 0;
    for (place, label) in labels.iter().enumerate() {
        let is_last = place + 1 == labels.len();
        let bits = if is_last { 8 * (5 - labels.len()) } else { 8 };
        let number = number(label)
            .filter(|number| number >> bits == 0)
            .ok_or(bad)?;
        value = value << bits | number;
    }
    let value = u32::try_from(value).map_err(|_| bad)?;
    Ok(Ipv4Addr::from(value).to_string())
}

fn number(label: &str) -> Option<u64> {
    match label
        .strip_prefix("0x")
        .map(|hex| hex.trim_start_matches('0'))
    {
        Some("") => Some(0),
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => label.parse().ok(),
    }
}

/// Everything that looks like SCHEME://... in a text, each up to the next blank or quote or 2,000 characters.
pub fn urls_in_text(text: &str) -> impl Iterator<Item = &str> {
    let (mut from, mut clear) = (0, 0); // from here to there nothing ends a URL, and is not read again for the next one
    std::iter::from_fn(move || loop {
        let at = from + text.get(from..)?.find("://")?;
        from = at + 3;
        if let Some(start) = scheme_start(text, at) {
            let limit = at + head(text.get(at..)?, MAX_SHOWN).len();
            let begin = from.max(clear).min(limit);
            let rest = text.get(begin..limit)?;
            clear = begin + rest.find(ends_url).unwrap_or(rest.len());
            return text.get(start..clear);
        }
    })
}

/// Where the scheme begins that ends at a position: the first letter of its characters, 32 of them at most.
fn scheme_start(text: &str, at: usize) -> Option<usize> {
    let before = text.as_bytes().get(..at)?;
    let run = before
        .iter()
        .rev()
        .take(MAX_SCHEME)
        .take_while(|b| is_scheme_byte(**b))
        .count();
    let begin = at - run;
    let letter = before
        .get(begin..)?
        .iter()
        .position(u8::is_ascii_alphabetic)?;
    Some(begin + letter)
}

fn ends_url(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '`' | '<' | '>' | '|' | ';' | '(' | ')' | '{' | '}' | ','
    ) || is_blank(c)
}

/// `\s` of Python.
#[must_use]
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// False for this machine, private networks and names that are no public ones; for a host in its normal form.
#[must_use]
pub fn is_public(host: &str) -> bool {
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        let bits = u128::from(address);
        let held = |(net, length): &([u16; 8], u32)| {
            (bits ^ u128::from(Ipv6Addr::from(*net))) >> (128 - length) == 0
        };
        return !NO_PUBLIC_V6.iter().any(held);
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        let bits = u32::from(address);
        let held = |(net, length): &([u8; 4], u32)| {
            (bits ^ u32::from(Ipv4Addr::from(*net))) >> (32 - length) == 0
        };
        return !NO_PUBLIC_V4.iter().any(held);
    }
    host.contains('.') && !LOCAL.iter().any(|end| is_below(host, end))
}

fn is_below(host: &str, end: &str) -> bool {
    host.strip_suffix(end)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::{host_of_url, is_public, normal_host, urls_in_text, NoHost};

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

    #[test]
    fn urls_end_where_a_text_goes_on() {
        let found: Vec<&str> =
            urls_in_text("see <https://a.example/x>, (9ftp://b) 1://c").collect();
        assert_eq!(found, ["https://a.example/x", "ftp://b"]);
    }

    #[test]
    fn what_is_not_reachable_from_outside_is_not_public() {
        for host in [
            "localhost",
            "db.internal",
            "10.1.2.3",
            "::1",
            "fe80::1",
            "nodots",
            "100.64.0.1",
        ] {
            assert!(!is_public(host), "{host}");
        }
        for host in ["a.example", "8.8.8.8", "2600::1", "notlocalhost.example"] {
            assert!(is_public(host), "{host}");
        }
    }
}
