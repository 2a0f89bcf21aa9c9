//! Which places are more than files: start-up files, credentials, what sets up an agent or this guard.

use std::sync::LazyLock;

use super::effects::Finding;
use super::fnmatch;
use super::paths::Place;
use super::patterns::{starts, Pattern};
use super::values::{partition, HOME, HOME_TEXT, WORK_TEXT};

/// Files by which an agent or this guard is set up, as path components that must stand together; globs allowed.
#[rustfmt::skip]
const PROTECTED: &[&str] = &[
    ".claude/settings*.json", ".claude/hooks/*", ".claude.json", "managed-settings.json", "managed-settings.d/*",
    ".codex/hooks.json", ".codex/config.toml", ".gemini/settings.json", ".github/hooks/*", ".copilot/hooks/*",
    ".cursor/hooks.json", "interlock.toml", ".config/interlock", ".local/state/interlock", ".interlock",
    "library/application support/interlock", "interlock-receipts*", "receipts.jsonl",
];
/// Folders in which an agent or this guard keeps its settings.
#[rustfmt::skip]
pub const AGENT_FOLDERS: &[&str] = &[
    ".claude", ".codex", ".gemini", ".copilot", ".cursor", ".interlock", "interlock",
];
const SYSTEM_FILES: &[&str] = &[
    "/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/proc", "/sys", "/System",
];

static NAMED: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"claude|managed-settings|codex|gemini|\.github|copilot|cursor|interlock|receipts",
        r"|\.config|\.local",
    ))
});
static PLACES: LazyLock<[(&str, Pattern); 8]> = LazyLock::new(|| {
    [
        (
            "persist.shell_init",
            Pattern::new(concat!(
                r"^\x01/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc",
                r"|zprofile|zshenv|zlogin|zlogout|kshrc|cshrc|tcshrc|inputrc|xprofile|xinitrc|xsession",
                r"|pam_environment|config/fish/(config\.fish|conf\.d/.*))\n?$",
            )),
        ),
        (
            "persist.shell_init",
            Pattern::new(concat!(
                r"^/etc/(profile|bash\.bashrc|bashrc|zsh/.*|zshrc|zshenv|profile\.d/.*",
                r"|environment|ld\.so\.preload)\n?$",
            )),
        ),
        (
            "persist.ssh_keys",
            Pattern::new(r"^\x01/\.ssh/(authorized_keys2?|config|rc|environment)\n?$|^/etc/ssh/"),
        ),
        (
            "persist.cron",
            Pattern::new(r"^/etc/(cron[^/]*|anacrontab)(/|\n?$)|^/var/spool/(cron|at)(/|\n?$)"),
        ),
        (
            "persist.service",
            Pattern::new(concat!(
                r"/(LaunchAgents|LaunchDaemons)/|^/etc/(systemd|init\.d|rc\.local|rc\.d)",
                r"|^\x01/\.config/(systemd|autostart)/|^/(usr/)?lib/systemd/",
            )),
        ),
        (
            "persist.git_hook",
            Pattern::new(concat!(
                r"(^|/)\.git/(hooks/[^/.]+|config)\n?$|(^|/)\.husky/[^/]+\n?$",
                r"|^\x01/\.gitconfig\n?$",
            )),
        ),
        (
            "privilege.account",
            Pattern::new(
                r"^/etc/(sudoers(\.d/.*)?|passwd|shadow|group|gshadow|doas\.conf|pam\.d/.*)\n?$",
            ),
        ),
        (
            "system.traces",
            Pattern::new(concat!(
                r"^\x01/\.([a-z]+_|z)history\n?$",
                r"|^/var/log/(wtmp|btmp|lastlog|auth\.log|secure|syslog|messages|kern\.log|system\.log|audit/.*)\n?$",
            )),
        ),
    ]
});
static SECRETS: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"^\x01/\.(?:ssh|aws|gnupg|azure|kube|config/gcloud)/?\n?$",
        r"|^\x01/(\.ssh/(id_[^/]*|[^/]*\.pem|identity)|\.aws/(credentials|sso/.*|cli/cache.*)|\.netrc|\.pgpass",
        r"|\.my\.cnf|\.git-credentials",
        r"|\.docker/config\.json|\.kube/config|\.gnupg/.*|\.config/gcloud/.*|\.azure/.*|\.npmrc|\.pypirc|\.vault-token",
        r"|\.config/gh/hosts\.yml",
        r"|\.config/op/.*|\.cargo/credentials(\.toml)?|Library/Keychains/.*|(?:\.config",
        r"|Library/Application Support)/(?:google-chrome|chromium|Google/Chrome|BraveSoftware)/.*(?:Login Data",
        r"|Cookies)|\.mozilla/firefox/.*(?:logins\.json|key4\.db|cookies\.sqlite)|\.local/share/keyrings/.*)\n?$",
        r"|^/etc/g?shadow\n?$|^/proc/[^/]+/environ\n?$",
        r"|(^|/)(\.env(\.(local|prod|production|staging|development|dev|test))?|credentials\.json",
        r"|service-account[^/]*\.json|id_(rsa|dsa|ecdsa|ed25519))\n?$",
    ))
});
static CACHES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"^\x01/(?:\.cache/.+|\.npm/_.+|Library/Caches/.+|\.gradle/caches.*|\.m2/repository.*|\.cargo/registry.*",
        r"|go/pkg/mod.*",
        r"|\.local/share/Trash/.+|\.pytest_cache.*|\.yarn/cache.*|\.pnpm-store.*)\n?$",
    ))
});

/// One component of a protected path: as a pattern, and as a text that a glob may take.
struct Component {
    pattern: fnmatch::Pattern,
    plain: String,
}

static PROTECTED_PARTS: LazyLock<Vec<Vec<Component>>> = LazyLock::new(|| {
    let component = |text: &str| Component {
        pattern: fnmatch::Pattern::new(text),
        plain: text.replace('*', "x"),
    };
    let components = |path: &&str| path.split('/').map(component).collect();
    PROTECTED.iter().map(components).collect()
});

/// The path with a home directory written as the mark, however it was named.
#[must_use]
pub fn tail(path: &str) -> String {
    for parent in ["/home/", "/Users/"] {
        if let Some(rest) = path.strip_prefix(parent) {
            let (name, slash, below) = partition(rest, '/');
            if !name.is_empty() {
                return if slash {
                    format!("{HOME}/{below}")
                } else {
                    HOME_TEXT.to_owned()
                };
            }
        }
    }
    match path.strip_prefix("/root") {
        Some(rest) if rest.is_empty() || rest == "\n" || rest.starts_with('/') => {
            format!("{HOME}{rest}")
        }
        _ => path.to_owned(),
    }
}

/// Whether the file is one where credentials live.
#[must_use]
pub fn is_secret(path: &str) -> bool {
    SECRETS.is_match(&tail(path))
}

/// Whether the file is the public half of a pair of keys.
#[must_use]
pub fn is_public(path: &str) -> bool {
    // File systems tell `.pub` from `.PUB`, and so does ssh.
    path.strip_suffix(".pub").is_some()
}

/// Whether the path is a cache that programs fill again.
#[must_use]
pub fn is_cache(path: &str) -> bool {
    CACHES.is_match(&tail(path))
}

/// Whether the path is, or by its globs could be, a file that sets up an agent or this guard.
#[must_use]
pub fn protected(path: &str, glob: bool, takes_parents: bool) -> bool {
    if !glob && !NAMED.is_match(path) {
        return false;
    }
    let parts: Vec<Part> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != HOME_TEXT && *part != WORK_TEXT)
        .map(|part| Part::new(part, glob))
        .collect();
    PROTECTED_PARTS
        .iter()
        .any(|wanted| stands_in(&parts, wanted, takes_parents))
}

/// One component of a path that is looked at.
struct Part {
    text: String,
    /// Its text as a pattern, where globs in it are live.
    pattern: Option<fnmatch::Pattern>,
}

impl Part {
    fn new(text: &str, glob: bool) -> Self {
        let text = text.to_lowercase();
        let pattern = glob.then(|| fnmatch::Pattern::new(&text));
        Part { text, pattern }
    }

    fn is_like(&self, wanted: &Component) -> bool {
        wanted.pattern.matches(&self.text)
            || self
                .pattern
                .as_ref()
                .is_some_and(|pattern| pattern.matches(&wanted.plain))
    }

    fn only_globs(&self) -> bool {
        self.pattern.is_some() && self.text.chars().all(|c| matches!(c, '*' | '?' | '.'))
    }
}

/// What stands for a component that any name is like, which says nothing.
const ANY: &str = "x";

fn stands_in(parts: &[Part], wanted: &[Component], takes_parents: bool) -> bool {
    (0..parts.len()).any(|start| {
        let here = parts.get(start..).unwrap_or(&[]);
        let pairs = here.len().min(wanted.len());
        let ends = pairs == wanted.len() || (takes_parents && start + pairs == parts.len());
        // `lib*` says too little
        let little = pairs == 1
            && wanted
                .first()
                .is_some_and(|wanted| wanted.plain == "library");
        ends && !little
            && here
                .iter()
                .zip(wanted)
                .all(|(part, wanted)| part.is_like(wanted))
            && !here
                .iter()
                .zip(wanted)
                .all(|(part, wanted)| wanted.plain == ANY || part.only_globs())
    })
}

/// Whether any of the patterns of places could match a path: a glance that spares reading it for each of them.
fn may_be_known(path: &str) -> bool {
    const BEGIN: [&str; 6] = [
        "\x01/.",
        "/etc/",
        "/var/spool/",
        "/var/log/",
        "/usr/lib/",
        "/lib/",
    ];
    const WITHIN: [&str; 3] = [".git/", ".husky/", "/Launch"];
    BEGIN.iter().any(|start| path.starts_with(start))
        || (path.contains(['.', 'L']) && WITHIN.iter().any(|part| path.contains(part)))
}

/// The intents that a change of the file at this place has.
#[must_use]
pub fn by_place(path: &str) -> Vec<&'static str> {
    let short = tail(path);
    if !may_be_known(&short) {
        return Vec::new();
    }
    PLACES
        .iter()
        .filter(|(_, pattern)| pattern.is_match(&short))
        .map(|(name, _)| *name)
        .collect()
}

/// What a write means: what kind of file that is (`append` or not).
#[must_use]
pub fn write(place: &Place, append: bool) -> Vec<Finding> {
    let path = place.path.as_str();
    let mut found = Vec::new();
    if protected(path, path.contains(['*', '?']), false) {
        found.push("self.protect.config");
    }
    found.extend(by_place(path));
    let inside = starts(path, SYSTEM_FILES) && !path.starts_with("/proc/self/fd/"); // what is open already
    let system = place.scope == "system" && place.whole && inside;
    if system || (place.scope == "root" && place.whole && !append) {
        found.push("fs.write.system");
    }
    found
        .into_iter()
        .map(|name| Finding::new(name, path, place.scope))
        .collect()
}

/// What a read means.
#[must_use]
pub fn read(place: &Place) -> Vec<Finding> {
    let mut found = vec![Finding::new("fs.read", place.path.as_str(), place.scope)];
    if is_secret(&place.path) && !is_public(&place.path) {
        found.push(Finding::new(
            "secret.read",
            place.path.as_str(),
            place.scope,
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{by_place, is_secret, protected, tail};

    #[test]
    fn a_home_directory_is_the_mark_however_it_was_named() {
        assert_eq!(tail("/home/me/.ssh"), "\u{1}/.ssh");
        assert_eq!(tail("/Users/me"), "\u{1}");
        assert_eq!(tail("/root/x"), "\u{1}/x");
        assert_eq!(tail("/rooted"), "/rooted");
        assert_eq!(tail("/home//x"), "/home//x");
    }

    #[test]
    fn places_are_known_by_their_text() {
        assert!(
            is_secret("/home/me/.aws/credentials") && is_secret("x/.env") && !is_secret("x/env")
        );
        assert_eq!(by_place("/w/.git/hooks/pre-commit"), ["persist.git_hook"]);
        assert!(protected("/w/.claude/settings.local.json", false, false));
        assert!(protected("/w/.claude", false, true) && !protected("/w/.claude", false, false));
        assert!(protected("/w/.cl*/set*", true, false) && !protected("/w/*/*", true, false));
    }
}
