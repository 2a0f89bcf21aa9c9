//! Detectors of what a call carries out, and of where it leads, as `engine/detectors/outgoing.py`.

use std::sync::LazyLock;

use memchr::memmem;

use crate::context::Context;
use crate::detectors::addresses::{is_public, CLOUD_METADATA};
use crate::detectors::hosts::head;
use crate::detectors::indicator::hosts_of;
use crate::detectors::together::Loud;
use crate::detectors::urls;
use crate::detectors::walk::texts;
use crate::detectors::Said;
use crate::matching::Unjudged;
use crate::plan::Verdict;
use crate::rx::{Flags, Rx};

const LIMIT: usize = 262_144; // characters of one text that are looked at
const ASCII: Flags = Flags {
    fold: false,
    ascii: true,
    dotall: false,
};

static IMAGE: LazyLock<Rx> = LazyLock::new(|| {
    Rx::with(
        r"!\[[^\]\n]{0,200}\]\(\s{0,9}[^\s)?]{1,500}\?[^\s)]{16}",
        ASCII,
    )
});

/// The block of the first text of which a test holds; `together`, where many are asked of at once.
pub fn first(
    context: &Context<'_, '_>,
    policy_id: &'static str,
    reason: &str,
    together: bool,
    holds: &dyn Fn(&str, &str) -> bool,
) -> Option<Said> {
    let mut loud = match context.together().filter(|_| together) {
        Some(many) => Some(many.loud(&|text| holds("", text))?),
        None => None,
    };
    let mut said = None;
    texts(&context.event.args, &mut |place, key, text| {
        if loud.as_mut().is_none_or(Loud::next_may) && holds(key, text) {
            said = Some(block(policy_id, reason, place.path()));
        }
        said.is_none()
    });
    said
}

fn block(policy_id: &'static str, reason: &str, path: String) -> Said {
    Said {
        verdict: Verdict::Block,
        reason: reason.to_owned(),
        policy_id,
        attributed_to: Some(path),
        edit: None,
    }
}

/// A URL or network command that leads to this machine, a private network or cloud metadata.
///
/// # Errors
/// Where a host is for the Python engine to read.
pub fn private_network(
    context: &Context<'_, '_>,
    metadata_only: bool,
    allowed: &dyn Fn(&str) -> bool,
) -> Result<Option<Said>, Unjudged> {
    let mut said = None;
    hosts_of(context.event, &mut |place, host| {
        let metadata = CLOUD_METADATA.contains(&host);
        if !allowed(host) && (metadata || (!metadata_only && !is_public(host))) {
            let (service, machine) = (
                "a cloud's metadata service",
                "this machine or a private network",
            );
            let reason = format!(
                "the call leads to {}",
                if metadata { service } else { machine }
            );
            said = Some(block("private_network", &reason, place.path()));
        }
        said.is_none()
    })?;
    Ok(said)
}

/// A host name with letters of other alphabets, written out or as `xn--`.
#[must_use]
pub fn is_lookalike(text: &str) -> bool {
    urls::is_lookalike(head(text, LIMIT))
}

/// A password inside a URL.
#[must_use]
pub fn holds_password(text: &str) -> bool {
    urls::holds_password(head(text, LIMIT))
}

/// A URL whose query has so many characters, or an image whose URL has a query at all.
#[must_use]
pub fn carries_query(text: &str, least: usize) -> bool {
    let text = head(text, LIMIT);
    let may_be_image = memmem::find(text.as_bytes(), b"](").is_some();
    (may_be_image && IMAGE.is_in(text)) || urls::has_long_query(text, least)
}

/// A run of base64 or hex of so many characters.
#[must_use]
pub fn carries_encoded(text: &str, least: usize) -> bool {
    let encoded = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '=' | '-');
    head(text, LIMIT)
        .split(|c| !encoded(c))
        .any(|run| run.len() >= least)
}

/// A text of so many characters.
#[must_use]
pub fn is_long(text: &str, least: usize) -> bool {
    text.len() >= least && text.chars().count() >= least
}

/// Shell syntax.
#[must_use]
pub fn holds_shell(text: &str) -> bool {
    head(text, LIMIT).contains([
        ';', '|', '&', '`', '$', '<', '>', '(', ')', '{', '}', '\n', '\r', '\\',
    ])
}

#[cfg(test)]
mod tests {
    use super::{carries_encoded, carries_query, holds_password, is_long, is_lookalike};

    #[test]
    fn urls_say_what_they_carry() {
        assert!(
            is_lookalike("https://ex\u{430}mple.com/")
                && is_lookalike("http://XN--a.b")
                && !is_lookalike("https://a.b/é")
        );
        assert!(holds_password("see https://u:p@h/") && !holds_password("https://u@h/ a:b"));
        assert!(carries_query("https://h/?abcd", 4) && !carries_query("https://h/?abc", 4));
        assert!(carries_query("![x](https://h/a?0123456789abcdef)", 1000));
        assert!(carries_encoded("x QUJDRA== y", 8) && !carries_encoded("QUJD RA==", 8));
        assert!(is_long("éé", 2) && !is_long("é", 2));
    }
}
