//! `indicator`: fires where a call names a host whose digest is listed, as `engine/detectors/indicator.py`.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use crate::canonical::{digest, Value as Canonical};
use crate::detectors::addresses::is_public;
use crate::detectors::commands::hosts_in_command;
use crate::detectors::hosts::{head, readable};
use crate::detectors::urls::urls_in_text;
use crate::detectors::walk::{texts, Place};
use crate::detectors::Said;
use crate::matching::Unjudged;
use crate::plan::Verdict;
use crate::value::Event;

const ID: &str = "indicator";
const DOMAIN: &str = "interlock/indicator/host/v1";
const TEXT_LIMIT: usize = 262_144; // characters of one text that are looked at
const HOST_LIMIT: usize = 256; // hosts of one event
const SIZE: usize = 32; // bytes of a digest

/// The digests that are looked for.
#[derive(Clone, Debug)]
pub struct Digests(HashSet<[u8; SIZE]>);

impl Digests {
    /// Compile `{"digests": ["host:HEX", ...], "kind": "host"}`.
    ///
    /// # Errors
    /// One line, for what is none.
    pub fn new(params: &Map<String, Json>) -> Result<Self, String> {
        let known = |key: &String| key == "digests" || key == "kind";
        if !params.keys().all(known) || params.get("kind").is_some_and(|kind| kind != "host") {
            return Err("takes digests of hosts only".to_owned());
        }
        let rows = params
            .get("digests")
            .and_then(Json::as_array)
            .ok_or("needs digests")?;
        let digests = rows.iter().map(|row| row.as_str().and_then(bytes_of));
        let digests: Option<HashSet<_>> = digests.collect();
        digests
            .map(Self)
            .ok_or_else(|| "a digest is 64 lower-case hex digits".to_owned())
    }
}

fn bytes_of(text: &str) -> Option<[u8; SIZE]> {
    let hex = text.strip_prefix("host:").unwrap_or(text);
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if hex.len() != 2 * SIZE || !hex.bytes().all(lower) {
        return None;
    }
    let mut out = [0; SIZE];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(out)
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
    if key == "command" || key == "cmd" {
        return hosts_in_command(text, see);
    }
    Ok(true)
}

/// What the detector says of an event.
///
/// # Errors
/// Where a host is for the Python engine to read.
pub fn judge(wanted: &Digests, event: &Event<'_>) -> Result<Option<Said>, Unjudged> {
    if wanted.0.is_empty() {
        return Ok(None);
    }
    let (mut found, mut looked_at) = (false, 0);
    hosts_of(event, &mut |_, host| {
        if !is_public(host) {
            return true;
        }
        looked_at += 1;
        let text = Canonical::Text(host.encode_utf16().collect());
        found |= digest(DOMAIN, &text).is_some_and(|digest| wanted.0.contains(&digest));
        !found && looked_at < HOST_LIMIT
    })?;
    Ok(found.then(|| Said {
        verdict: Verdict::Block,
        reason: "the call names a host that is a known indicator of attacks".to_owned(),
        policy_id: ID,
        attributed_to: None,
        edit: None,
    }))
}
