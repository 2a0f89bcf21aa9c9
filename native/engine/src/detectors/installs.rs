//! Packages that a shell command takes from a registry, as `engine/detectors/installs.py`.

use std::sync::LazyLock;

use crate::detectors::commands::segments;
use crate::detectors::hosts::head;
use crate::rx::{Flags, Rx};

const LIMIT: usize = 262_144; // characters of a command
const VERB_WORDS: usize = 4; // of which one has to be a verb, where a program has some
const VERSIONS: [&str; 3] = ["-v", "--version", "--vers"];
const RUNNERS: [&str; 7] = ["bunx", "dlx", "exec", "npx", "run", "uvx", "x"];
const ARCHIVES: [&str; 6] = [".whl", ".tgz", ".tar.gz", ".zip", ".gem", ".crate"];

static PYPI: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(
        r"([A-Za-z0-9][\w.-]{0,99})(?:\[[^\]]*\])?(?:===?([^=,;<>!~*\s]{1,64})|[<>!~].{1,100})?\Z",
    )
});
static NPM: LazyLock<Rx> = LazyLock::new(|| {
    Rx::with(
        r"((?:@[a-z0-9~-][a-z0-9._~-]{0,99}/)?[a-z0-9~-][a-z0-9._~-]{0,99})(?:@([^@\s]{1,64}))?\Z",
        Flags {
            fold: true,
            ..Flags::default()
        },
    )
});
static CARGO: LazyLock<Rx> =
    LazyLock::new(|| Rx::new(r"([A-Za-z][A-Za-z0-9_-]{0,99})(?:@=?([^@\s]{1,64}))?\Z"));
static GEM: LazyLock<Rx> =
    LazyLock::new(|| Rx::new(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})(?::([^:\s]{1,64}))?\Z"));
static GO: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(
        r"((?:[a-z0-9-]{1,63}\.){1,5}[a-z0-9-]{1,63}(?:/[A-Za-z0-9._~-]{1,100}){0,20})(?:@([^@\s]{1,64}))?\Z",
    )
});

/// Where packages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ecosystem {
    Cargo,
    Gem,
    Go,
    Npm,
    Pypi,
}

/// A package that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// `ECOSYSTEM:NAME`, in the one spelling that its registry takes for all of them.
    pub name: String,
    /// Empty where the command leaves the choice to the registry.
    pub version: String,
}

/// A program that installs, and the words after which packages follow; none where they follow at once.
#[derive(Clone, Copy)]
struct Installer {
    ecosystem: Ecosystem,
    verbs: &'static [&'static str],
    runs: bool, // what it fetches, where it has no verbs
}

/// Show each package that the installers of a command are given, until `see` wants no more.
pub fn packages_in_command(command: &str, see: &mut dyn FnMut(&Package) -> bool) {
    for (program, words) in segments(head(command, LIMIT), installer) {
        let firsts = words.iter().take(VERB_WORDS);
        let at = firsts.clone().position(|word| program.verbs.contains(word));
        let (given, once) = match at.and_then(|at| words.split_at_checked(at)) {
            Some((_, [verb, given @ ..])) => (given, RUNNERS.contains(verb)),
            _ if program.verbs.is_empty() => (words.as_slice(), program.runs),
            _ => continue,
        };
        if !named(program.ecosystem, given, once, see) {
            return;
        }
    }
}

fn installer(word: &str) -> Option<Installer> {
    let name = word.rsplit('/').next()?;
    let (ecosystem, verbs): (Ecosystem, &'static [&'static str]) = match name {
        "pip" | "pip3" => (Ecosystem::Pypi, &["download", "install", "wheel"]),
        "pdm" | "poetry" | "uv" => (Ecosystem::Pypi, &["add", "install"]),
        "pipx" => (Ecosystem::Pypi, &["inject", "install", "run"]),
        "uvx" => (Ecosystem::Pypi, &[]),
        "npm" => (Ecosystem::Npm, &["add", "exec", "i", "install", "x"]),
        "bun" | "pnpm" | "yarn" => (Ecosystem::Npm, &["add", "dlx", "i", "install", "x"]),
        "bunx" | "npx" => (Ecosystem::Npm, &[]),
        "cargo" => (Ecosystem::Cargo, &["add", "install"]),
        "gem" => (Ecosystem::Gem, &["install"]),
        "go" => (Ecosystem::Go, &["get", "install", "run"]),
        _ => return None,
    };
    Some(Installer {
        ecosystem,
        verbs,
        runs: RUNNERS.contains(&name),
    })
}

/// Show the packages among the words after a verb; false where `see` wanted no more. `once`: only the first word is one.
fn named(
    ecosystem: Ecosystem,
    words: &[&str],
    once: bool,
    see: &mut dyn FnMut(&Package) -> bool,
) -> bool {
    let said = matches!(ecosystem, Ecosystem::Cargo | Ecosystem::Gem);
    let pairs = words.iter().zip(words.iter().skip(1));
    let version = pairs
        .filter(|(option, _)| said && VERSIONS.contains(option))
        .map(|(_, value)| *value)
        .next()
        .unwrap_or("");
    let mut skip = false;
    for word in words {
        if skip || word.starts_with('-') {
            let is_version = !version.is_empty() && VERSIONS.contains(word);
            skip = !skip && (ecosystem.valued().contains(word) || is_version);
            continue;
        }
        let package = ecosystem.package(word, version);
        if package.is_some_and(|package| !see(&package)) {
            return false;
        }
        if once {
            break;
        }
    }
    true
}

fn is_place(word: &str) -> bool {
    let ends = |archive: &&str| {
        let start = word.len().checked_sub(archive.len());
        let end = start.and_then(|start| word.get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(archive))
    };
    word.starts_with(['.', '/', '~'])
        || word.starts_with("git+")
        || word.contains("://")
        || ARCHIVES.iter().any(ends)
}

impl Ecosystem {
    fn package(self, word: &str, version: &str) -> Option<Package> {
        if is_place(word) {
            return None;
        }
        let found = self.form().match_at(word, 0)?;
        let name = self.normal(found.group(1)?);
        Some(Package {
            name: format!("{}:{name}", self.name()),
            version: found.group(2).unwrap_or(version).to_owned(),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Gem => "gem",
            Self::Go => "go",
            Self::Npm => "npm",
            Self::Pypi => "pypi",
        }
    }

    fn form(self) -> &'static Rx {
        match self {
            Self::Cargo => &CARGO,
            Self::Gem => &GEM,
            Self::Go => &GO,
            Self::Npm => &NPM,
            Self::Pypi => &PYPI,
        }
    }

    /// A name in the one spelling that its registry takes for all of them.
    fn normal(self, name: &str) -> String {
        match self {
            Self::Pypi => with_single_dashes(name).to_lowercase(),
            Self::Cargo => name.to_lowercase().replace('_', "-"),
            Self::Npm => name.to_lowercase(),
            Self::Gem | Self::Go => name.to_owned(),
        }
    }

    /// Options whose value is no package.
    fn valued(self) -> &'static [&'static str] {
        match self {
            Self::Cargo => &[
                "-F",
                "--branch",
                "--features",
                "--git",
                "--index",
                "--path",
                "--registry",
                "--root",
                "--tag",
            ],
            Self::Gem => &["-i", "-n", "-s", "--bindir", "--install-dir", "--source"],
            Self::Go => &["-C", "-modfile", "-tags"],
            Self::Npm => &["-C", "-w", "--prefix", "--registry", "--tag", "--workspace"],
            Self::Pypi => &[
                "-c",
                "-e",
                "-f",
                "-i",
                "-r",
                "-t",
                "--constraint",
                "--editable",
                "--extra-index-url",
                "--find-links",
                "--index",
                "--index-url",
                "--prefix",
                "--python",
                "--requirement",
                "--root",
                "--target",
            ],
        }
    }
}

/// PEP 503: one dash for each run of `-`, `_` and `.`.
fn with_single_dashes(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::packages_in_command;

    fn packages(command: &str) -> Vec<String> {
        let mut found = Vec::new();
        packages_in_command(command, &mut |package| {
            found.push(format!("{}@{}", package.name, package.version));
            true
        });
        found
    }

    #[test]
    fn installers_name_their_packages_in_one_spelling() {
        for (command, expected) in [
            (
                "pip install Evil._-Pkg[all]==1.2.0 other",
                &["pypi:evil-pkg@1.2.0", "pypi:other@"][..],
            ),
            (
                "python3 -m pip install -r r.txt -i https://m.example/s evil",
                &["pypi:evil@"],
            ),
            ("uvx evil==1 --flag other", &["pypi:evil@1"]),
            (
                "npm i -g left-pad@1.0.0 @Scope/x ./local pack.TGZ",
                &["npm:left-pad@1.0.0", "npm:@scope/x@"],
            ),
            (
                "/usr/bin/npx -y evil@2 other; npm test evil",
                &["npm:evil@2"],
            ),
            ("cargo add Evil_crate --vers 1.0", &["cargo:evil-crate@1.0"]),
            ("gem install evil -v 3.1", &["gem:evil@3.1"]),
            (
                "go install example.com/cmd/evil@v1.2.3",
                &["go:example.com/cmd/evil@v1.2.3"],
            ),
            ("echo pip; ls install", &[]),
            (
                "pip install git+https://example.com/x.git ./here x.whl",
                &[],
            ),
        ] {
            assert_eq!(packages(command), expected, "{command}");
        }
    }

    #[test]
    fn whoever_wants_no_more_is_shown_no_more() {
        let mut seen = 0;
        packages_in_command("npm i a b c && npm i d", &mut |_| {
            seen += 1;
            seen < 2
        });
        assert_eq!(seen, 2);
    }
}
