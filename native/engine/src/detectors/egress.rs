//! `network_egress`: a call may reach only the hosts on a list, as `engine/detectors/egress.py`.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::detectors::commands::hosts_in_command;
use crate::detectors::hosts::{head, host_of_url, is_blank, normal_host, NoHost};
use crate::detectors::walk::texts;
use crate::detectors::Said;
use crate::matching::Unjudged;
use crate::plan::Verdict;
use crate::rx::{Flags, Rx};
use crate::value::Event;

const ID: &str = "network_egress";
const START: usize = 512; // characters in which a URL has to begin

static URL_START: LazyLock<Rx> = LazyLock::new(|| {
    let flags = Flags {
        fold: true,
        ..Flags::default()
    };
    Rx::with(
        r"[\s\x00-\x1f]{0,64}(?:(?:https?|wss?|ftp):|[a-z][a-z0-9+.\-]{0,31}:[\\/]{2})",
        flags,
    )
});

/// The hosts that a call may reach.
#[derive(Clone, Debug)]
pub struct Allowlist {
    exact: HashSet<String>,
    below: Vec<String>,
}

impl Allowlist {
    /// Compile a list of hosts; `*.x` is the hosts below x.
    ///
    /// # Errors
    /// One line, for an entry that this engine does not read as a host.
    pub fn new(entries: &[String]) -> Result<Self, String> {
        let mut list = Self {
            exact: HashSet::new(),
            below: Vec::new(),
        };
        let host = |text: &str| {
            normal_host(text).map_err(|_| "an allowed host is no host here".to_owned())
        };
        for entry in entries {
            if let Some(parent) = entry.strip_prefix("*.") {
                list.below.push(format!(".{}", host(parent)?));
            } else {
                list.exact.insert(host(&bracketed(entry))?);
            }
        }
        Ok(list)
    }

    fn allows(&self, host: &str) -> bool {
        self.exact.contains(host)
            || self
                .below
                .iter()
                .any(|end| host.len() > end.len() && host.ends_with(end.as_str()))
    }
}

/// What the detector says of an event.
///
/// # Errors
/// Where a host is for the Python engine to read.
pub fn judge(allowed: &Allowlist, event: &Event<'_>) -> Result<Option<Said>, Unjudged> {
    let mut said = None;
    let mut failed = None;
    texts(&event.args, &mut |place, key, text| {
        let mut refused = None;
        let done = hosts(key, text, &mut |host| {
            refused = (!allowed.allows(host)).then(|| host.to_owned());
            refused.is_none()
        });
        let reason = match (done, refused) {
            (_, Some(host)) => format!("egress to '{host}' is not on the destination allowlist"),
            (Err(NoHost::Bad(what)), None) => {
                format!("egress to a host that cannot be read: {what}")
            }
            (Err(NoHost::Unable), None) => {
                failed = Some(Unjudged::Unable);
                return false;
            }
            (Ok(()), None) => return true,
        };
        said = Some(Said {
            verdict: Verdict::Block,
            reason,
            policy_id: ID,
            attributed_to: Some(place.path()),
            edit: None,
        });
        false
    });
    failed.map_or(Ok(said), Err)
}

/// Show the hosts that a call leads to, until `see` wants no more.
///
/// # Errors
/// Where one cannot be read.
pub fn hosts_of_call(event: &Event<'_>, see: &mut dyn FnMut(&str) -> bool) -> Result<(), NoHost> {
    let mut done = Ok(());
    texts(&event.args, &mut |_, key, text| {
        done = hosts(key, text, see);
        done.is_ok()
    });
    done
}

/// Show the hosts that one argument leads to.
fn hosts(key: &str, text: &str, see: &mut dyn FnMut(&str) -> bool) -> Result<(), NoHost> {
    let kind = last_word(key).to_ascii_lowercase();
    let host = match kind.as_str() {
        "host" | "hostname" if starts_as_url(text) => host_of_url(text, true)?,
        "host" | "hostname" => {
            let place = text.trim_matches(is_blank);
            host_of_url(&format!("//{}", bracketed(place)), true)?
        }
        "url" | "uri" | "href" | "endpoint" | "webhook" => host_of_url(text, true)?,
        "command" | "cmd" if !starts_as_url(text) => {
            return hosts_in_command(text, see)
                .map(|_| ())
                .map_err(|_| NoHost::Unable);
        }
        _ => of_any_value(text)?,
    };
    if let Some(host) = host {
        see(&host);
    }
    Ok(())
}

/// The last word of a name, as `[A-Z]?[a-z0-9]+|[A-Z]+` finds words from the left.
fn last_word(key: &str) -> &str {
    let bytes = key.as_bytes();
    let run = |from: usize, of: fn(&u8) -> bool| {
        bytes
            .get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|b| of(b))
            .count()
    };
    let small: fn(&u8) -> bool = |b| b.is_ascii_lowercase() || b.is_ascii_digit();
    let (mut at, mut last) = (0, "");
    while at < bytes.len() {
        let capitals = run(at, u8::is_ascii_uppercase);
        let begun = usize::from(capitals > 0);
        let length = match run(at + begun, small) {
            0 => capitals,
            more => begun + more,
        };
        last = if length > 0 {
            key.get(at..at + length).unwrap_or("")
        } else {
            last
        };
        at += length.max(1);
    }
    last
}

fn bracketed(host: &str) -> String {
    if host.matches(':').count() > 1 && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn starts_as_url(text: &str) -> bool {
    let start = head(text, START);
    if start.contains(['\t', '\n', '\r']) {
        return URL_START.begins(&start.replace(['\t', '\n', '\r'], ""));
    }
    URL_START.begins(start)
}

/// The host of a value that begins as a URL does.
fn of_any_value(text: &str) -> Result<Option<String>, NoHost> {
    if !starts_as_url(text) {
        return Ok(None);
    }
    let read = host_of_url(text, false);
    if !matches!(read, Err(NoHost::Bad(_))) {
        return read;
    }
    let slash = ['/', '\\'];
    let rest = text
        .trim_matches(is_blank)
        .split_once(':')
        .map_or("", |(_, rest)| rest);
    let before_path = rest
        .trim_start_matches(slash)
        .split(slash)
        .next()
        .unwrap_or("");
    if before_path.contains(is_blank) {
        return Ok(None); // "https: is the scheme of ..." is prose: no client takes it for a URL
    }
    read
}

#[cfg(test)]
mod tests {
    use super::{last_word, starts_as_url};

    #[test]
    fn the_last_word_of_a_name_says_what_it_holds() {
        for (key, word) in [
            ("url", "url"),
            ("targetURL", "URL"),
            ("webhook_url", "url"),
            ("apiHost", "Host"),
            ("URLs", "s"),
            ("HTTPHost", "ost"),
            ("ABc", "c"),
            ("é", ""),
        ] {
            assert_eq!(last_word(key), word, "{key}");
        }
    }

    #[test]
    fn a_url_begins_with_a_scheme() {
        for text in [
            "https://x",
            " \thttp:x",
            "ht\ntps://x",
            "s3://b",
            "HTTPS:\\\\x",
        ] {
            assert!(starts_as_url(text), "{text}");
        }
        for text in ["mailto:x", "see https://x", "x:/y", ""] {
            assert!(!starts_as_url(text), "{text}");
        }
    }
}
