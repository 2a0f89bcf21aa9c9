//! `indicator`: fires where a call names what is listed by its digest, as `engine/detectors/indicator.py`.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::canonical::{digest, Value as Canonical};
use crate::context::Context;
use crate::detectors::addresses::is_public;
use crate::detectors::commands::hosts_in_command;
use crate::detectors::hosts::{head, readable};
use crate::detectors::installs::packages_in_command;
use crate::detectors::urls::urls_in_text;
use crate::detectors::walk::{texts, Place};
use crate::detectors::Said;
use crate::fast::Fast;
use crate::matching::Unjudged;
use crate::plan::Verdict;
use crate::value::Event;

const ID: &str = "indicator";
const REASON: &str = "the call names what is a known indicator of attacks";
const REASON_HOST: &str = "the call names a host that is a known indicator of attacks";
const TEXT_LIMIT: usize = 262_144; // characters of one text that are looked at
const MOST: usize = 256; // of each kind, of one event
const SIZE: usize = 32; // bytes of a digest
const HEX: usize = 2 * SIZE;

/// What an indicator may be of; a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The SHA-256 of a file: of what a call writes, or as an argument names it.
    File,
    /// A public host that a URL or a network command names.
    Host,
    /// The pinned listing of an MCP server's tool.
    Mcp,
    /// A package that a command installs, at its version or at all of them.
    Package,
}

/// One indicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    kind: Kind,
    digest: [u8; SIZE],
}

/// A set of indicators: digests spread by themselves.
pub type Marks = HashSet<Mark, BuildHasherDefault<Fast>>;

/// The indicators that are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// All of them.
    pub marks: Marks,
    /// Their kinds, each once.
    pub kinds: Vec<Kind>,
}

/// The indicators of one kind that an event names.
#[derive(Debug, Default)]
pub struct Named {
    /// In the order in which they stand; some perhaps twice.
    pub marks: Vec<Mark>,
    /// Whether something after them is for the Python engine to read.
    pub unable: bool,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::File, Self::Host, Self::Mcp, Self::Package];

    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Host => "host",
            Self::Mcp => "mcp",
            Self::Package => "package",
        }
    }

    fn domain(self) -> &'static str {
        match self {
            Self::File => "interlock/indicator/file/v1",
            Self::Host => "interlock/indicator/host/v1",
            Self::Mcp => "interlock/indicator/mcp/v1",
            Self::Package => "interlock/indicator/package/v1",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What an event names of this kind.
    #[must_use]
    pub fn named_in(self, event: &Event<'_>) -> Named {
        match self {
            Self::File => files(event),
            Self::Host => hosts(event),
            Self::Mcp => servers(event),
            Self::Package => packages(event),
        }
    }
}

impl Digests {
    /// Compile `{"digests": ["KIND:HEX" or "HEX", ...], "kind": KIND}`; a digest that names no kind is of that one, by
    /// default a host's.
    ///
    /// # Errors
    /// One line, for what is none.
    pub fn new(params: &Map<String, Json>) -> Result<Self, String> {
        if let Some(other) = params
            .keys()
            .find(|key| *key != "digests" && *key != "kind")
        {
            return Err(format!("unknown parameter {other:?}"));
        }
        let kind = match params.get("kind") {
            None => Some(Kind::Host),
            Some(given) => given.as_str().and_then(Kind::of),
        };
        let kind = kind.ok_or("kind: is none of indicators")?;
        let rows = params.get("digests").and_then(Json::as_array);
        let rows = rows.ok_or("needs digests")?.iter();
        let marks = rows.map(|row| row.as_str().and_then(|text| mark_of(text, kind)));
        let marks: Marks = marks
            .collect::<Option<_>>()
            .ok_or("a digest is 64 lower-case hex digits, after its kind or none")?;
        let is_there = |kind: &Kind| marks.iter().any(|mark| mark.kind == *kind);
        let kinds = Kind::ALL.into_iter().filter(is_there).collect();
        Ok(Self { marks, kinds })
    }
}

fn mark_of(text: &str, kind: Kind) -> Option<Mark> {
    let (kind, hex) = match text.split_once(':') {
        None => (kind, text),
        Some((name, hex)) => (Kind::of(name)?, hex),
    };
    let hex: &[u8; HEX] = hex.as_bytes().try_into().ok()?;
    let mut digest = [0; SIZE];
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = pair.iter().try_fold(0, |byte, digit| {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            Some(byte << 4 | value)
        })?;
    }
    Some(Mark { kind, digest })
}

impl Named {
    /// Add what is named; whether there is room for more.
    fn add(&mut self, kind: Kind, value: &str) -> bool {
        let text = Canonical::Text(value.encode_utf16().collect());
        let digest = digest(kind.domain(), &text);
        self.marks
            .extend(digest.map(|digest| Mark { kind, digest }));
        self.marks.len() < MOST
    }
}

fn hosts(event: &Event<'_>) -> Named {
    let mut named = Named::default();
    let read = hosts_of(event, &mut |_, host| {
        !is_public(host) || named.add(Kind::Host, host)
    });
    named.unable = read.is_err();
    named
}

fn packages(event: &Event<'_>) -> Named {
    let mut named = Named::default();
    texts(&event.args, &mut |_, key, text| {
        let mut room = true;
        if is_command(key) {
            packages_in_command(text, &mut |package| {
                let every = format!("{}@*", package.name);
                let one = format!("{}@{}", package.name, package.version);
                room = named.add(Kind::Package, &every)
                    && (package.version.is_empty() || named.add(Kind::Package, &one));
                room
            });
        }
        room
    });
    named
}

fn files(event: &Event<'_>) -> Named {
    let mut named = Named::default();
    texts(&event.args, &mut |_, key, text| {
        let room = hashes_in(head(text, TEXT_LIMIT).as_bytes(), &mut |hash| {
            named.add(Kind::File, &hash.to_ascii_lowercase())
        });
        let is_whole = matches!(key, "content" | "contents" | "file_text"); // what a call writes into a file
        room && (!is_whole || named.add(Kind::File, &hex_of(&Sha256::digest(text.as_bytes()))))
    });
    named
}

fn servers(event: &Event<'_>) -> Named {
    let mut named = Named::default();
    let pin = event.server_pin.as_deref();
    if let Some(pin) = pin.filter(|pin| mark_of(pin, Kind::Mcp).is_some() && pin.len() == HEX) {
        named.add(Kind::Mcp, pin);
    }
    named
}

fn is_command(key: &str) -> bool {
    key == "command" || key == "cmd"
}

/// Show each run of letters and digits that is a SHA-256 in hex, until `see` wants no more; whether it wants more.
fn hashes_in(text: &[u8], see: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut start = 0; // of a run, or of what stands between two
    while let Some(window) = text.get(start..start + HEX) {
        let no_part = |byte: &u8| !byte.is_ascii_alphanumeric();
        if let Some(last) = window.iter().rposition(no_part) {
            start += last + 1;
            continue;
        }
        let rest = text.get(start + HEX..).unwrap_or_default();
        let longer = rest.iter().position(no_part).unwrap_or(rest.len());
        if longer == 0 && window.iter().all(u8::is_ascii_hexdigit) {
            let hash = std::str::from_utf8(window);
            if hash.is_ok_and(|hash| !see(hash)) {
                return false;
            }
        }
        start += HEX + longer;
    }
    true
}

fn hex_of(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.flatten().collect()
}

/// Show every host that a call's arguments name, once, with the path of the argument that names it first.
///
/// # Errors
/// Where a host is for the Python engine to read.
pub fn hosts_of(
    event: &Event<'_>,
    see: &mut dyn FnMut(&Place<'_>, &str) -> bool,
) -> Result<(), Unjudged> {
    let mut seen = HashSet::new();
    let mut failed = None;
    texts(&event.args, &mut |place, key, text| {
        let done = named(key, head(text, TEXT_LIMIT), &mut |host| {
            let known = seen.contains(host) || !seen.insert(host.to_owned());
            known || see(place, host)
        });
        done.unwrap_or_else(|unjudged| {
            failed = Some(unjudged);
            false
        })
    });
    failed.map_or(Ok(()), Err)
}

fn named(key: &str, text: &str, see: &mut dyn FnMut(&str) -> bool) -> Result<bool, Unjudged> {
    let mut heads = HashSet::new(); // of URLs that were read: nothing after it changes the host
    let mut last = None;
    for url in urls_in_text(text) {
        let head = url.head();
        if head.is_some_and(|head| last == Some(head) || !heads.insert(head)) {
            continue;
        }
        last = head;
        if let Some(Some(host)) = readable(url.host())? {
            if !see(&host) {
                return Ok(false);
            }
        }
    }
    if is_command(key) {
        return hosts_in_command(text, see);
    }
    Ok(true)
}

/// What the detector says of an event.
///
/// # Errors
/// Where a host is for the Python engine to read, and nothing else is listed.
pub fn judge(wanted: &Digests, context: &Context<'_, '_>) -> Result<Option<Said>, Unjudged> {
    let mut unable = false;
    for kind in &wanted.kinds {
        let named = context.named(*kind);
        if named.marks.iter().any(|mark| wanted.marks.contains(mark)) {
            let only_hosts = wanted.kinds == [Kind::Host];
            return Ok(Some(Said {
                verdict: Verdict::Block,
                reason: if only_hosts { REASON_HOST } else { REASON }.to_owned(),
                policy_id: ID,
                attributed_to: None,
                edit: None,
            }));
        }
        unable |= named.unable;
    }
    if unable {
        return Err(Unjudged::Unable);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{hashes_in, mark_of, Kind};

    #[test]
    fn a_hash_stands_by_itself() {
        let found = |text: &str| {
            let mut found = Vec::new();
            hashes_in(text.as_bytes(), &mut |hash| {
                found.push(hash.to_owned());
                true
            });
            found
        };
        let hash = "9F".repeat(32);
        for (text, count) in [
            (hash.clone(), 1),
            (format!("é{hash}é"), 1),
            (format!("sha256:{hash}  x {hash}\n"), 2),
            (format!("{hash}0"), 0),
            (format!("g{hash}"), 0),
            (format!("{}g", &"9f".repeat(31)), 0),
            (format!("{}gg", &"9f".repeat(31)), 0),
            (format!("{}.{hash}", "a".repeat(63)), 1),
            ("a".repeat(63), 0),
            (String::new(), 0),
        ] {
            assert_eq!(found(&text), vec![hash.clone(); count], "{text}");
        }
        for far in 0..130 {
            let text = format!("{} {hash}", "x".repeat(far));
            assert_eq!(found(&text), vec![hash.clone(); 1], "{far}");
        }
    }

    #[test]
    fn a_digest_is_of_the_kind_that_it_names() {
        let hex = "0a".repeat(32);
        let kind = |text: &str| mark_of(text, Kind::Mcp).map(|mark| mark.kind);
        assert_eq!(kind(&hex), Some(Kind::Mcp));
        assert_eq!(kind(&format!("file:{hex}")), Some(Kind::File));
        for bad in [
            format!("path:{hex}"),
            hex.to_uppercase(),
            format!("{hex}0"),
            String::new(),
        ] {
            assert_eq!(kind(&bad), None, "{bad}");
        }
        assert_eq!(
            mark_of(&hex, Kind::File).map(|mark| mark.digest),
            Some([10; 32])
        );
    }
}
