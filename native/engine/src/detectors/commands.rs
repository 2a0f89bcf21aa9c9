//! Hosts that a shell command talks to: a plain scan, as `engine/detectors/commands.py`.

use std::sync::LazyLock;

use crate::detectors::hosts::{head, is_blank, normal_host, readable};
use crate::detectors::urls::urls_in_text;
use crate::matching::Unjudged;
use crate::rx::Rx;

const PROGRAMS: [&str; 18] = [
    "aria2c", "axel", "curl", "ftp", "git", "http", "https", "lftp", "nc", "ncat", "netcat",
    "rsync", "scp", "sftp", "ssh", "telnet", "wget", "xh",
];
const COPIERS: [&str; 3] = ["git", "rsync", "scp"];
const GIT: [&str; 7] = [
    "clone",
    "fetch",
    "ls-remote",
    "pull",
    "push",
    "remote",
    "submodule",
];
const GIT_WORDS: usize = 4; // of which one has to be a subcommand that talks
const VALUED_LETTERS: &str = "AbcdDeEFHiKLmoOpPQTuUwX";
const VALUED: [&str; 12] = [
    "--data",
    "--data-binary",
    "--data-raw",
    "--data-urlencode",
    "--form",
    "--header",
    "--output",
    "--output-document",
    "--post-data",
    "--post-file",
    "--request",
    "--upload-file",
];
const LIMIT: usize = 262_144; // characters of a command

static SCP: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(r"(?:[\w.+-]{1,64}@)?([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]+\]):(?!//)")
});
static NAMED: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(
        r"(?:[\w.+-]{1,64}@)?((?:[A-Za-z0-9_-]{1,63}\.){1,10}[A-Za-z0-9-]{1,63})(?::\d{1,5})?(?:/|\Z)",
    )
});
static VERSION: LazyLock<Rx> = LazyLock::new(|| Rx::new(r"\d+(?:\.\d+){0,2}\Z"));

/// Whoever is shown hosts, one by one; false to hear no more.
pub type See<'s> = &'s mut dyn FnMut(&str) -> bool;

/// Show the normal forms of the hosts that network programs are given; false where `see` wanted no more.
///
/// # Errors
/// Where a host is for the Python engine to read.
pub fn hosts_in_command(command: &str, see: See<'_>) -> Result<bool, Unjudged> {
    for (program, given) in segments(head(command, LIMIT), network_program) {
        if !hosts_given(program, &given, see)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Each of the programs that `known` knows, with the words after it up to the end of its simple command.
pub fn segments<P>(
    command: &str,
    known: impl Fn(&str) -> Option<P>,
) -> impl Iterator<Item = (P, Vec<&str>)> {
    let mut words = Words { rest: command };
    std::iter::from_fn(move || {
        let mut program = None;
        let mut given = Vec::new();
        loop {
            match words.next() {
                Some(Word::Text(text)) if program.is_some() => given.push(text),
                Some(Word::Text(text)) => program = known(text),
                Some(Word::Separator) if program.is_none() => {}
                Some(Word::Separator) | None => return program.map(|program| (program, given)),
            }
        }
    })
}

enum Word<'t> {
    Text(&'t str),
    Separator,
}

/// The words of a command: quoted, bare, or a sign that ends a simple command.
struct Words<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Words<'t> {
    type Item = Word<'t>;

    fn next(&mut self) -> Option<Word<'t>> {
        loop {
            let first = self.rest.chars().next()?;
            let after = self.rest.get(first.len_utf8()..)?;
            match first {
                '"' | '\'' => {
                    if let Some((quoted, rest)) = after.split_once(first) {
                        self.rest = rest;
                        return Some(Word::Text(quoted));
                    }
                    self.rest = after;
                }
                ';' | '|' | '&' | '\n' | '(' | ')' => {
                    self.rest = after;
                    return Some(Word::Separator);
                }
                c if is_blank(c) => self.rest = after,
                _ => {
                    let ends = |c: char| {
                        matches!(c, ';' | '|' | '&' | '(' | ')' | '"' | '\'') || is_blank(c)
                    };
                    let (word, rest) = self
                        .rest
                        .split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
                    self.rest = rest;
                    return Some(Word::Text(word));
                }
            }
        }
    }
}

fn network_program(word: &str) -> Option<&'static str> {
    let name = word.rsplit('/').next()?;
    PROGRAMS.iter().find(|known| **known == name).copied()
}

fn hosts_given(program: &str, words: &[&str], see: See<'_>) -> Result<bool, Unjudged> {
    if program == "git" && !words.iter().take(GIT_WORDS).any(|word| GIT.contains(word)) {
        return Ok(true);
    }
    let mut skip = false;
    for word in words {
        if !skip {
            if !hosts_of_word(word, program, see)? {
                return Ok(false);
            }
            if program == "ssh" && !word.starts_with('-') {
                break; // the rest is the remote command
            }
        }
        skip = program != "git" && takes_value(word);
    }
    Ok(true)
}

fn takes_value(word: &str) -> bool {
    let letter = word.strip_prefix('-').filter(|letter| letter.len() == 1);
    letter.is_some_and(|letter| VALUED_LETTERS.contains(letter))
        || VALUED.contains(&word)
        || word == "--user"
}

fn hosts_of_word(word: &str, program: &str, see: See<'_>) -> Result<bool, Unjudged> {
    if word.contains("://") {
        for url in urls_in_text(word) {
            if let Some(Some(host)) = readable(url.host())? {
                if !see(&host) {
                    return Ok(false);
                }
            }
        }
        return Ok(true);
    }
    if word.starts_with('-') {
        return Ok(true);
    }
    let form = if COPIERS.contains(&program) {
        &SCP
    } else {
        &NAMED
    };
    let found = form.match_at(word, 0);
    let named = found
        .as_ref()
        .and_then(|found| found.group(1))
        .filter(|name| !VERSION.begins(name));
    match named {
        Some(name) => Ok(readable(normal_host(name))?.is_none_or(|host| see(&host))),
        None => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::hosts_in_command;

    fn hosts(command: &str) -> Vec<String> {
        let mut found = Vec::new();
        let done = hosts_in_command(command, &mut |host| {
            found.push(host.to_owned());
            true
        });
        assert_eq!(done, Ok(true));
        found
    }

    #[test]
    fn network_programs_name_their_hosts() {
        assert_eq!(
            hosts("curl -H 'X: a.example' https://b.example/x c.example"),
            ["b.example", "c.example"]
        );
        assert_eq!(
            hosts("git clone git@c.example:x.git && ls d.example"),
            ["c.example"]
        );
        assert_eq!(
            hosts("ssh -p 22 me@e.example ping f.example; wget g.example/x"),
            ["e.example", "g.example"]
        );
        assert_eq!(hosts("echo curl"), Vec::<String>::new());
        assert_eq!(hosts("git commit -m 'see a:b'"), Vec::<String>::new());
    }
}
